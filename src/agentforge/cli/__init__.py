"""The command line: parse, call the SDK, render views."""

"""The command line: parse, call the SDK, render views.

main: finds the command and turns errors into words. invocation: the options that all commands share.
exit_codes: the one table. attached: drives runs with a display (live, or plain lines) and signals.
output, log_output: what goes to stdout and stderr. Each other module is a command or a few of a kind.
"""

"""The command line: parse, call the SDK, render views.

main: finds the command and reports errors. invocation: the options that all commands share.
exit_codes: the table of exit statuses. attached: drives runs with a display (live or plain) and signals.
start, run_options: what the commands that start and resume runs share. display, live: the display of an
attached run. output, log_output: output to stdout and logs to stderr. commands: one module per command.
"""

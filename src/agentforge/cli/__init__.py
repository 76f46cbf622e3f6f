"""The command line: parse, call the SDK, render views.

main: finds the command and reports errors. commands: by subject. invocation: the options that all commands
share, and the choice of a session. start, run_options: what the commands that start and continue runs share.
attached: drives runs with a display (live or plain) and signals. display, live: that display. controls: runs
without one. request_choice, request_output, ask: which request, what it is about, the prompt. output,
log_output: output to stdout and logs to stderr. exit_codes: the table of exit statuses.
"""

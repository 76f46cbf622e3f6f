"""The built-in providers, one file each.

claude, codex, gemini, opencode: the CLIs of these agents. cli: what they have in common, and any other CLI.
api: models called directly. command: any program, and the script of a hook. mock: fixtures instead of an
agent. replay: a recorded session, played back.
"""

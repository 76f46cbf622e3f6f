"""The built-in providers, one file each.

claude, codex, gemini, opencode: the CLIs of these agents. api: models called directly. command: any program.
mock: fixtures instead of an agent. replay: a recorded session, played back.
"""

"""The providers that come with the product, one file each, named for what does the work.

claude, codex: these agents' own CLIs. command: any program. mock: fixtures instead of an agent.
replay: a recorded session, played back.
"""

"""The operations behind every surface, and the only place that connects adapters with ports.

runs: everything about the runs of a project. providers: which exist, and whether they can work here.
definitions: lint, listings, pictures. hooks: functions of a program as hooks; hook_needs: what hooks lack
on this machine. notifications: who is told what. recording: cassettes and replays. background: runs in
tmux. doctor, probes: what is wrong with this machine. starter: what `init` writes.
settings_files, settings_text: what `config` shows and changes.
redaction: how secrets are hidden from logs. agent_output: the output of an agent while it works. wiring:
which log, sandboxes and hosts are used.
"""

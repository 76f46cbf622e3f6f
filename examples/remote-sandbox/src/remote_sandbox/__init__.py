"""An AgentForge provider that runs agents in sandboxes of a remote service.

provider: the interface to the engine; builds the command line and interprets the exit.
program: the program that the engine runs; creates, fills, uses and deletes the sandbox.
service: the HTTP client of the service. workspace: the files to upload, and the paths for downloads.
"""

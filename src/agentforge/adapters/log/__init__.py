"""The event log in `events.jsonl`.

jsonl_log: opens it, repairs it, and returns a writer. writer: buffers and syncs. jsonl_file: the bytes.
reader: events and damage. write_ahead: the copy that restores it after a power failure. lease: the lock on
the file. displacement: notices that the path leads to another file.
"""

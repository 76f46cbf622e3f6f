"""The variables of prompts."""

CURRENT = ("CTX", "STATUS", "RESULT", "PROGRESS", "OUTPUT")
DEPRECATED = ("SESSION", "SESSION_NAME", "ITERATION", "INDEX", "CONTEXT")
LEGACY = ("PERSPECTIVE", "OUTPUT_PATH", "PROGRESS_FILE")
"""Variables of agent-pipelines, rarely used."""

VARIABLES = (*CURRENT, *DEPRECATED, *LEGACY)

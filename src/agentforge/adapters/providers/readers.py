"""Who reads a CLI's output, by the name that its description gives."""

from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.adapters.providers.stream import StreamReader
from agentforge.adapters.providers.stream_claude import ClaudeStream
from agentforge.adapters.providers.stream_codex import CodexStream
from agentforge.adapters.providers.stream_gemini import GeminiStream
from agentforge.adapters.providers.stream_json import JsonLinesStream
from agentforge.adapters.providers.stream_opencode import OpencodeStream

STREAMS: dict[str, StreamReader] = {
    "claude": ClaudeStream(),
    "codex": CodexStream(),
    "gemini": GeminiStream(),
    "opencode": OpencodeStream(),
}
TEXT = "text"
JSON_LINES = "json_lines"
FORMATS = (TEXT, JSON_LINES, *STREAMS)


def reader_of(cli: AgentCli) -> StreamReader | None:
    """None reads text: there is nothing to take apart."""
    if cli.output == TEXT:
        return None
    if cli.output == JSON_LINES:
        return JsonLinesStream(cli.fields)
    return STREAMS[cli.output]

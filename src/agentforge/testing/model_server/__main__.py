"""The model server as a program: prints its address, and serves until it is stopped."""

import argparse
import sys
import threading
from pathlib import Path

import msgspec

from agentforge.testing.model_server.requests import SeenRequest
from agentforge.testing.model_server.script import SCRIPTS, Script
from agentforge.testing.model_server.server import ModelServer


def main() -> None:
    options = _options()
    try:
        script = _script(options.script)
        server = ModelServer(port=options.port)
    except (OSError, LookupError, msgspec.DecodeError) as error:
        sys.exit(f"model server: {error}")
    print(server.url(script, options.run), flush=True)  # noqa: T201 - a program's answer
    shown = 0
    try:
        while True:
            threading.Event().wait(0.2)
            for seen in server.every_request()[shown:] if options.verbose else ():
                if not seen.ended:
                    break
                shown += 1
                print(_line(seen), file=sys.stderr, flush=True)  # noqa: T201
    except KeyboardInterrupt:
        server.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m agentforge.testing.model_server",
        description="A scripted model on 127.0.0.1. Anthropic and Gemini clients use the printed address, "
        "OpenAI clients append /v1.",
    )
    parser.add_argument(
        "--script", default="write", help=f"JSON file, or one of: {', '.join(SCRIPTS)} (default: write)"
    )
    parser.add_argument("--port", type=int, default=0, help="port; 0 chooses a free one (default: 0)")
    parser.add_argument("--run", default="main", help="name that identifies the client (default: main)")
    parser.add_argument("--verbose", action="store_true", help="log requests to stderr")
    return parser.parse_args()


def _script(name: str) -> str | Script:
    if name in SCRIPTS:
        return name
    if not Path(name).exists():
        raise LookupError(f"unknown script {name!r}: must be a JSON file or one of {', '.join(SCRIPTS)}")
    return msgspec.json.decode(Path(name).read_bytes(), type=Script)


def _line(seen: SeenRequest) -> str:
    calls = f" calls {', '.join(seen.calls)}" if seen.calls else ""
    ending = f"{seen.status} {seen.ended}"
    return f"{seen.method} {seen.path} {ending}, model {seen.model or '-'}, step {seen.step}{calls}"


if __name__ == "__main__":
    main()

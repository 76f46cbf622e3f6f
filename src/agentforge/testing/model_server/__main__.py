"""The model server by hand: prints its address, serves until it is ended."""

import argparse
import sys
import threading
from pathlib import Path

import msgspec

from agentforge.testing.model_server.script import Script
from agentforge.testing.model_server.scripts import SCRIPTS
from agentforge.testing.model_server.seen import SeenRequests
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
        description="A scripted model on 127.0.0.1. Anthropic's and Gemini's clients take the address as it "
        "is printed, OpenAI's with /v1 behind it.",
    )
    parser.add_argument(
        "--script", default="write", help=f"a JSON file, or one of: {', '.join(SCRIPTS)} (default: write)"
    )
    parser.add_argument("--port", type=int, default=0, help="0 is any that is free (default)")
    parser.add_argument("--run", default="main", help="tells clients of one server apart (default: main)")
    parser.add_argument("--verbose", action="store_true", help="say on stderr what was asked")
    return parser.parse_args()


def _script(wanted: str) -> str | Script:
    if wanted in SCRIPTS:
        return wanted
    if not Path(wanted).exists():
        raise LookupError(f"no script {wanted!r}: neither a JSON file nor one of {', '.join(SCRIPTS)}")
    return msgspec.json.decode(Path(wanted).read_bytes(), type=Script)


def _line(seen: SeenRequests) -> str:
    calls = f" calls {', '.join(seen.calls)}" if seen.calls else ""
    ending = f"{seen.status} {seen.ended}"
    return f"{seen.method} {seen.path} {ending}, model {seen.model or '-'}, step {seen.step}{calls}"


if __name__ == "__main__":
    main()

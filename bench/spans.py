"""What the export of spans adds to an iteration, with a collector on this machine."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure, beside

MAX_ON = 1.1
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
COLLECTOR = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def spans(root: Path, rounds: int, per_round: int) -> list[Measure]:
    """In turns, so that noise meets all of them, and each of them begins as often."""
    unset: list[float] = []
    off: list[float] = []
    on: list[float] = []
    with collector() as address:
        turns: list[tuple[str, list[float], dict[str, str]]] = [
            ("unset", unset, {}),
            ("off", off, {ENDPOINT: address, "OTEL_SDK_DISABLED": "true"}),
            ("on", on, {ENDPOINT: address}),
        ]
        for number in range(rounds):
            for name, seconds, variables in turns:
                seconds.extend(await _iterations(root, f"spans-{name}-{number}", per_round, variables))
            turns.append(turns.pop(0))
    floor = "the same without the variables"
    return [
        beside("iteration with spans turned off", "µs", off, floor, unset),
        beside("iteration with spans", "µs", on, floor, unset, maximum=MAX_ON),
    ]


@contextmanager
def collector() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def _iterations(root: Path, session: str, count: int, variables: Mapping[str, str]) -> list[float]:
    """What the engine takes between two iterations, with files."""
    agent = InProcess(uses_files=True)
    async with engine_in(root, agent, variables) as engine:
        result = await engine.run(in_process_pipeline(count), session=session)
    assert result.iterations == count, result
    return agent.engine_seconds

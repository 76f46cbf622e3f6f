"""A really full disk: a small tmpfs in a private mount namespace."""

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import sys
from pathlib import Path
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.jsonl_log import verify
from agentforge.model.errors import StorageFailed
from agentforge.testing.event_log_contract import timer_event

path, ballast = Path(sys.argv[1]) / "events.jsonl", Path(sys.argv[1]) / "ballast"
ballast.write_bytes(bytes(64 * 1024))
writer = JsonlLog(path, sleep=lambda _: None).open()
durable = 0
try:
    while True:
        for _ in range(3):
            writer.append(timer_event(writer.head.seq + 1))
        writer.sync()
        durable = writer.head.seq
except StorageFailed as error:
    print(error.message)
report = verify(path)
assert report.is_intact and report.torn is None, report
assert report.events == durable > 100, (report.events, durable)
ballast.unlink()
writer.close()
assert verify(path).events == writer.head.seq > durable
print("ok")
"""


def test_disk_full_on_a_real_file_system_loses_nothing_and_continues_when_space_is_freed(
    tmp_path: Path,
) -> None:
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        probe = subprocess.run([*unshare, mount, "sh", tmp_path], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("program: `unshare` not found")
    if probe.returncode:
        pytest.skip(f"privileges: no mounts in a user namespace here: {probe.stderr.decode().strip()}")
    run = [*unshare, f'{mount} && exec "$2" -c "$3" "$1"', "sh", str(tmp_path), sys.executable, _SCRIPT]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    message, last = done.stdout.splitlines()
    assert message.startswith("can't write to the log ")
    assert "No space left on device" in message or "bytes were written" in message
    assert last == "ok"

"""What a provider's command asks of the supervisor, from the engine's side."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentforge.adapters.host.processes import host_processes
from agentforge.model.layout import AttemptLayout
from agentforge.model.plan import ProviderChoice
from agentforge.ports.provider import Command
from agentforge.runtime.attempt_folder import exit_of, make_folder, read_claim
from agentforge.runtime.left_files import leave
from agentforge.runtime.supervision import AttemptLimits, Supervised, SupervisedExit, SupervisorLimits
from agentforge.system import files

from .attempt_run import ENV, SUPERVISOR, ManualClock, eventually, lives, no_leftover_processes, waits

KEY = 'sk-"quoted"-0123'
DEAF = "trap '' TERM; while :; do echo; sleep 0.02; done"


class Engine:
    def __init__(self, folder: Path, term_grace: float = 0.2, program: Path = SUPERVISOR) -> None:
        self.place = AttemptLayout(str(folder / "attempt-1"))
        self.mark = f"{os.getpid()}/{folder.name}"
        self.log = folder / "events.jsonl"
        self.log.touch()
        limits = SupervisorLimits(term_grace=term_grace)
        self.supervised = Supervised(host_processes(str(program)), limits, str(folder), str(self.log))

    def run(
        self,
        script: str,
        limits: AttemptLimits | None = None,
        cleanup: tuple[str, ...] = (),
        **asked: object,
    ) -> SupervisedExit:
        command = Command(("sh", "-c", script), ENV, **asked)  # type: ignore[arg-type]
        make_folder(self.place, leave)
        with no_leftover_processes():
            return asyncio.run(
                self.supervised.run(self.place, command, self.mark, limits or AttemptLimits(), cleanup)
            )


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_what_must_happen_before_a_start_does(tmp_path: Path) -> None:
    engine, found = Engine(tmp_path), []
    engine.supervised = Supervised(
        host_processes(str(SUPERVISOR)),
        SupervisorLimits(),
        str(tmp_path),
        str(engine.log),
        before_start=lambda: found.extend(["called", *os.listdir(engine.place.root)]),
    )
    assert engine.run("true").record is not None
    assert found == ["called"]


def test_the_providers_idle_limit_counts_instead_of_the_stages(engine: Engine) -> None:
    left = engine.run("sleep 0.8", AttemptLimits(idle_timeout=0.2), idle_timeout=20.0)
    assert left.record is not None
    assert left.record.status == "exited"


def test_the_stages_idle_limit_counts_where_the_provider_has_none(engine: Engine) -> None:
    left = engine.run("sleep 20", AttemptLimits(idle_timeout=0.2))
    assert left.record is not None
    assert left.record.status == "idle"


def pass_time(engine: Engine, clock: ManualClock) -> None:
    """By tenths of a second, until the attempt is over. The supervisor, which reads a line in each round,
    notices each of them."""
    exit, output = Path(engine.place.exit), Path(engine.place.output)
    eventually(lambda: output.exists() and output.read_bytes())
    claim = read_claim(engine.place, engine.mark)
    assert claim is not None
    while not exit.exists():
        known = output.stat().st_size
        clock.advance(1)
        eventually(lambda: exit.exists() or (output.stat().st_size > known and waits(claim.pid)))  # noqa: B023


@pytest.mark.parametrize(("engines", "providers"), [(0.2, 1.5), (1.5, None)])
def test_the_providers_grace_counts_or_else_the_engines(
    tmp_path: Path, engines: float, providers: float | None
) -> None:
    clock = ManualClock(tmp_path / "clock")
    engine = Engine(tmp_path, engines, clock.write_supervisor())
    with ThreadPoolExecutor(1) as pool:
        passing = pool.submit(pass_time, engine, clock)
        left = engine.run(DEAF, AttemptLimits(timeout=0.3), term_grace=providers)
        passing.result()
    assert left.record is not None
    assert left.record.status == "timeout"
    assert left.record.duration_ms >= 1800


def test_an_exit_has_output_and_errors(engine: Engine) -> None:
    left = engine.run("echo out; echo err >&2; exit 3", separate_errors=True)
    assert left.record is not None
    ended = exit_of(left.record, engine.place, ProviderChoice("command", ""))
    assert (ended.exit_code, ended.output, ended.errors) == (3, "out\n", "err\n")


def test_errors_are_part_of_the_output_unless_kept_apart(engine: Engine) -> None:
    left = engine.run("echo out; echo err >&2")
    assert left.record is not None
    ended = exit_of(left.record, engine.place, ProviderChoice("command", ""))
    assert (ended.output, ended.errors) == ("out\nerr\n", "")
    assert not Path(engine.place.errors).exists()


def test_a_secret_is_hidden_as_it_stands_in_json_too(engine: Engine) -> None:
    printed = [KEY, json.dumps({"key": KEY}), json.dumps(json.dumps(KEY))]
    script = "\n".join(f"cat <<'END'\n{line}\nEND" for line in printed)
    engine.run(script, secrets=(KEY,))
    text = Path(engine.place.output).read_text()
    assert text == '[secret]\n{"key": "[secret]"}\n"\\"[secret]\\""\n'


def test_no_file_of_the_attempt_keeps_a_secret(engine: Engine) -> None:
    key = "sk-0123456789"
    engine.run(f"echo {key}; cat", secrets=(key,), stdin=key, descriptors={3: key}, cleanup=("true", key))
    for path in Path(engine.place.root).iterdir():
        assert key not in path.read_text(), path


def killed_supervisor(engine: Engine, script: str, cleanup: tuple[str, ...]) -> None:
    """Start an agent and kill its supervisor; the engine then counts the attempt as lost."""

    async def play() -> SupervisedExit:
        command = Command(("sh", "-c", script), ENV)
        make_folder(engine.place, leave)
        running = asyncio.create_task(
            engine.supervised.run(engine.place, command, engine.mark, AttemptLimits(), cleanup)
        )
        await asyncio.to_thread(eventually, Path(engine.place.agent).exists)
        claim = read_claim(engine.place, engine.mark)
        assert claim is not None
        os.kill(claim.pid, signal.SIGKILL)
        return await running

    with no_leftover_processes():
        assert asyncio.run(play()).lost == "its supervisor died"


def test_the_engine_runs_the_cleanup_if_the_supervisor_was_killed(engine: Engine, tmp_path: Path) -> None:
    killed_supervisor(engine, "sleep 30", ("sh", "-c", f"echo ran >> {tmp_path}/after"))
    assert (tmp_path / "after").read_text() == "ran\n"


def test_a_later_engine_runs_it_as_well(engine: Engine, tmp_path: Path) -> None:
    cleanup = ("sh", "-c", f"echo ran >> {tmp_path}/after")
    killed_supervisor(engine, "sleep 30", cleanup)
    later = Engine(tmp_path).supervised
    again = asyncio.run(later.reattach(engine.place, engine.mark, lambda _: None, cleanup))
    assert again.lost == "its supervisor died"
    assert (tmp_path / "after").read_text() == "ran\nran\n"


def test_it_is_run_once_by_a_supervisor_that_lives(engine: Engine, tmp_path: Path) -> None:
    cleanup = ("sh", "-c", f"echo ran >> {tmp_path}/after")
    engine.run("true", cleanup=cleanup)
    again = asyncio.run(engine.supervised.reattach(engine.place, engine.mark, lambda _: None, cleanup))
    assert again.record is not None
    eventually(lambda: (tmp_path / "after").read_text() == "ran\n")


def test_an_attempt_that_no_supervisor_claimed_has_nothing_to_clean_up(
    engine: Engine, tmp_path: Path
) -> None:
    cleanup = ("sh", "-c", f"echo ran >> {tmp_path}/after")
    left = asyncio.run(engine.supervised.reattach(engine.place, engine.mark, lambda _: None, cleanup))
    assert not left.started
    assert not (tmp_path / "after").exists()


def test_a_waiting_engine_that_is_cancelled_during_the_handover_starts_nothing(engine: Engine) -> None:
    """Its supervisor gets no specification, or only a part of it."""

    async def play() -> None:
        command = Command(("touch", "ran"), {**ENV, "LONG": "x" * 50_000_000})
        make_folder(engine.place, leave)
        running = asyncio.create_task(
            engine.supervised.run(engine.place, command, engine.mark, AttemptLimits())
        )
        await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    with no_leftover_processes():
        asyncio.run(play())
    assert list(Path(engine.place.root).iterdir()) == []
    left = asyncio.run(engine.supervised.reattach(engine.place, engine.mark, lambda _: None))
    assert (left.lost, left.started) == ("the engine died before the agent was started", False)


def remove(claim: Path) -> None:
    claim.unlink()


def forge(claim: Path) -> None:
    claim.write_text('{"pid": 1, "start_time": "1", "boot_id": "b", "host": "h", "mark": "x"}')


@pytest.mark.parametrize("act", ["reattach", "end"])
@pytest.mark.parametrize("change", [remove, forge])
@pytest.mark.parametrize("is_moved", [False, True])
def test_an_agent_whose_claim_was_removed_is_ended_but_not_by_a_copy(
    tmp_path: Path, change: Callable[[Path], None], act: str, is_moved: bool
) -> None:
    """Otherwise the next attempt would work beside it, or the copy would end the agent of the original. Its
    folder is recognised by its path or by its inode: one of them is enough."""
    (tmp_path / "project").mkdir()
    engine = Engine(tmp_path / "project")
    cleanup = ("sh", "-c", f"echo ran >> {tmp_path}/after")

    async def reattach_or_end(place: AttemptLayout) -> SupervisedExit:
        if act == "end":
            return await engine.supervised.end(place, engine.mark, cleanup)
        return await engine.supervised.reattach(place, engine.mark, lambda _: None, cleanup)

    async def play() -> None:
        make_folder(engine.place, leave)
        command = Command(("sleep", "60"), ENV)
        running = asyncio.create_task(
            engine.supervised.run(engine.place, command, engine.mark, AttemptLimits())
        )
        await asyncio.to_thread(eventually, Path(engine.place.agent).exists)
        agent = json.loads(files.read_bytes(engine.place.agent) or b"")["pid"]
        change(Path(engine.place.claim))
        shutil.copytree(tmp_path / "project", tmp_path / "copy")
        copied = await reattach_or_end(AttemptLayout(str(tmp_path / "copy" / "attempt-1")))
        assert (copied.record, copied.started) == (None, False)
        assert lives(agent)
        assert not (tmp_path / "after").exists()
        here = tmp_path / "project"
        if is_moved:
            here = here.rename(tmp_path / "moved")
        left = await reattach_or_end(AttemptLayout(str(here / "attempt-1")))
        assert (left.lost, left.started) == ("its claim was removed while it was running", True)
        assert not lives(agent)
        assert (tmp_path / "after").read_text() == "ran\n"
        await running

    with no_leftover_processes():
        asyncio.run(play())

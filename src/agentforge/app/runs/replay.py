"""Recording and replaying runs, and what a replay does only if the user allows it."""

import hashlib
import os
import shlex
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agentforge.adapters.host.project_files import WorkspaceFiles, committed_files
from agentforge.adapters.providers.replay import ReplayProvider, load_cassette
from agentforge.app.recording import Replay
from agentforge.app.redaction import environment_redactor
from agentforge.app.runs.lookup import Runs
from agentforge.engine.nodes import NodeKeys
from agentforge.engine.rehearsal.outcomes import Answers
from agentforge.engine.rehearsal.rehearsed_run import reply_of
from agentforge.model.cassette import FORMAT, VERSION, Cassette, Header, WriteFile
from agentforge.model.errors import InvalidRequest
from agentforge.model.facts import SessionStarted
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.ports.provider import Provider
from agentforge.runtime.artifacts import read_artifact
from agentforge.runtime.driver import PlayedAnswers
from agentforge.runtime.journal import Journal
from agentforge.runtime.recorder import Recorder
from agentforge.system import files
from agentforge.version import __version__


def recorder_of(journal: Journal, layout: RunLayout, runs: Runs) -> Recorder:
    """The recorder of a run, which starts or continues its cassette."""
    settings, plan, project, environ = journal.state.settings, journal.plan, runs.project, runs.environ
    # Also what was recorded since the log was opened, such as the answers of a resume.
    journal.wait_for_disk()
    redactor = environment_redactor(environ)
    facts = (event.fact for event in runs.events(plan.session.name))
    started = next((fact for fact in facts if isinstance(fact, SessionStarted)), None)
    skipped = started.waivers if started else ()
    first = started.artifact if started else None
    header = Header(
        FORMAT,
        VERSION,
        name=plan.pipeline.name,
        session=plan.session.name,
        engine=__version__,
        pipeline=redactor.text(files.read_text(f"{layout.root}/pipeline.yaml") or ""),
        plateau_test=settings.plateau_test,
        waivers=tuple(replace(each, reason=redactor.text(each.reason)) for each in skipped),
        user_request=redactor.text(started.user_request) if started else "",
        artifact=read_artifact(layout, first) if first else None,
    )
    workspace = WorkspaceFiles(project, environ)
    recorder = Recorder(project, layout, plan, workspace, redactor=redactor, header=header)
    recorder.begin()
    for event in runs.events(plan.session.name):
        recorder.hear(event)
    journal.listen(recorder.hear)
    return recorder


class PlayedRun(Struct, frozen=True):
    """What a replay has instead of the world."""

    provider: Provider
    """Replaces all providers and the judge."""
    answers: PlayedAnswers
    cassette: Callable[[], Cassette]


def played_run(journal: Journal, layout: RunLayout, environ: Mapping[str, str]) -> PlayedRun:
    settings = journal.state.settings
    config = {
        "cassette": layout.replayed,
        "speed": settings.replay,
        "allow_commands": settings.replay_commands,
    }
    keys, answers = NodeKeys(journal.plan), Answers()
    for exchange in load_cassette(layout.replayed).exchanges:
        if exchange.answer is not None:
            answers.add_reply(*reply_of(exchange, exchange.answer))
    return PlayedRun(
        ReplayProvider(environ, config=config, for_all=True),
        lambda request: answers.reply(request, keys.at(request.at)),
        partial(load_cassette, layout.replayed),
    )


MAX_FILE = 64 * 1024 * 1024
MAX_SHOWN = 5


def refuse_unsafe_replay(replay: Replay, plan: Plan, project: str, environ: Mapping[str, str]) -> None:
    cassette, path = replay.recording.cassette, replay.recording.path
    commands = [f"`{command}`" for command in _commands(cassette, plan)]
    if commands and not replay.allow_commands:
        raise InvalidRequest(
            f"{path} runs commands: {_shown(commands)}",
            hint="read them, then allow them with --allow-commands (in Python: allow_commands=True)",
        )
    # The files that a replay changes, each with all contents that the recording gives it. The engine itself
    # replaces no one's file at an `output_path`.
    written = {
        path: {_content(step) for step in steps if isinstance(step, WriteFile)}
        for path, steps in cassette.file_steps.items()
    }
    if not replay.overwrite and (changed := uncommitted(written, project, environ)):
        raise InvalidRequest(
            f"the replay would overwrite work that is not committed: {_shown(changed)}",
            hint="use a clean checkout (`git worktree add`), commit or move the files, or allow it with "
            "--overwrite (in Python: overwrite=True)",
        )


def _commands(cassette: Cassette, plan: Plan) -> list[str]:
    """Those that the cassette brings along, each once: its steps and, if its own plan is replayed, those of
    the stages."""
    own = cassette.header.plan
    stages = plan.stages if own is not None and own.source == plan.source else ()
    of_stages = (command for stage in stages for command in stage.own_commands.values())
    return list(dict.fromkeys((*map(shlex.join, cassette.commands), *of_stages)))


def uncommitted(
    written: Mapping[str, Set[bytes | None]], project: str, environ: Mapping[str, str]
) -> list[str]:
    """The paths whose content would be lost: it is in neither the latest commit nor the recording."""
    present = [path for path in written if os.path.lexists(os.path.join(project, path))]
    committed = committed_files(project, environ) if present else {}
    files = WorkspaceFiles(project, environ)
    return [
        path
        for path in present
        if _is_lost(files.read(path, MAX_FILE), written[path], committed.get(path, ""))
    ]


def _is_lost(content: bytes | None, recorded: Set[bytes | None], committed: str) -> bool:
    if content is None:
        return True
    # As git names a content, without a call of git for each file.
    algorithm = "sha256" if len(committed) == 64 else "sha1"
    blob = hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return content not in recorded and blob.hexdigest() != committed


def _content(step: WriteFile) -> bytes | None:
    if step.base64 is None:
        return (step.text or "").encode("utf-8", "surrogateescape")
    try:
        return b64decode(step.base64)
    except ValueError:
        return None


def _shown(items: Sequence[str]) -> str:
    more = f" and {len(items) - MAX_SHOWN} more" if len(items) > MAX_SHOWN else ""
    return ", ".join(items[:MAX_SHOWN]) + more

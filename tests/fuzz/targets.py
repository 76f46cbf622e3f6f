"""The readers of bytes that an agent, a repository or another machine may have written.

Each may raise its documented errors only, and returns something bounded.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from tests.definition.world import TextWorld, stage

from agentforge.adapters.cli_agents.description import AgentCli, OutputFields
from agentforge.adapters.cli_agents.stream import MESSAGE_CHARS
from agentforge.adapters.daily_ledger import DailyLedger
from agentforge.adapters.host.git_objects import UNREADABLE, GitObjects
from agentforge.adapters.providers.api import ApiProvider
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.app.providers.described import described_provider
from agentforge.app.recording import read_recording
from agentforge.app.runs.first_artifact import first_artifact
from agentforge.app.runs.lock_folder import read_lock
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.work import RunWork
from agentforge.app.starter import examine_project
from agentforge.core.harness.replies import json_in, yaml_in
from agentforge.core.pipeline import PipelineState, PipelineStateStore
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.report import Report
from agentforge.definition.settings import read_settings
from agentforge.engine.checks.criteria import MAX_CRITERIA, Criteria, criteria_of
from agentforge.engine.checks.feedback import MAX_FEEDBACK_BYTES, failing_text
from agentforge.engine.checks.findings import read_criteria, read_findings
from agentforge.engine.checks.outcome import read_check
from agentforge.engine.checks.signature import MAX_SIGNATURE_CHARS
from agentforge.engine.checks.tests import counts_of, decoded_tests
from agentforge.engine.items import Element, elements_of
from agentforge.engine.normalise import (
    MAX_OUTPUT_BYTES,
    TRUNCATED,
    clean_output,
    normalise_result,
    read_judgment,
)
from agentforge.model import codec
from agentforge.model.artifact import MAX_ARTIFACT_DEPTH
from agentforge.model.cassette import parse_cassette
from agentforge.model.check import MAX_KEPT_FAILURES, CheckEnd, CheckParser, FileRule
from agentforge.model.errors import (
    NOT_JSON,
    AgentForgeError,
    DefinitionError,
    InvalidSettings,
    ProviderUnusable,
)
from agentforge.model.failure import Failure
from agentforge.model.layout import (
    PROJECT_SETTINGS,
    STAGE_FILES,
    USER_SETTINGS,
    RunLayout,
    is_inside,
    lock_file,
    stop_reason_file,
)
from agentforge.model.plan import ProviderChoice
from agentforge.model.request import Request
from agentforge.model.secrets import NO_SECRETS
from agentforge.model.state import CheckRecord, RunState
from agentforge.model.status import RunStatus
from agentforge.ports.provider import Exit, ProcessProvider, ShowsProgress
from agentforge.runtime.answers import given_answers, place_resolutions
from agentforge.runtime.attempt_folder import exit_of, read_claim, read_exit
from agentforge.runtime.controls import pending_controls
from agentforge.runtime.git_guard import read_before
from agentforge.runtime.hook_answer import read_answer
from agentforge.system.git_settings import words_in
from agentforge.system.schemas import MAX_PROBLEMS, JsonSchema, depth_of
from agentforge.testing.fake_clock import FakeClock
from agentforge.tool_loop.conversation import SessionStore
from agentforge.views.files.escalation import escalation_id
from agentforge.views.lines.events import event_line
from agentforge.views.lines.work import work_line, work_rows
from agentforge.views.prompt import FailedCheck, check_feedback

HERE = Path(__file__).parent
STREAMS = HERE.parent / "adapters" / "streams"
CHECKS = HERE.parent / "engine" / "check_outputs"
WORK_PLAN = (HERE.parents[1] / "src/agentforge/builtin/schemas/work-plan.json",)
NOTHING: tuple[type[Exception], ...] = ()


class Target(NamedTuple):
    read: Callable[[bytes], object]
    raises: tuple[type[Exception], ...] = NOTHING
    seeds: tuple[Path, ...] = ()
    """Further files to start from, besides its corpus."""


def interpreter(provider: ProcessProvider) -> Callable[[bytes], object]:
    def read(content: bytes) -> object:
        text = content.decode("utf-8", "replace")
        for code in (0, 1):
            result = provider.interpret(Exit(code, None, 1, text, errors=text))
            # The engine cuts the messages of other providers.
            assert not isinstance(provider, CliAgent) or _is_short(result.failure)
        assert isinstance(provider, ShowsProgress)
        for line in text.splitlines()[:50]:
            assert len(provider.progress(line)) <= len(line) + MESSAGE_CHARS
        return result

    return read


def _is_short(failure: Failure | None) -> bool:
    return failure is None or len(failure.message) < 2 * MESSAGE_CHARS


def stream_of(cli: AgentCli) -> Target:
    return Target(interpreter(CliAgent(cli, {})), seeds=tuple(sorted((STREAMS / cli.name).glob("*.jsonl"))))


FIELDS = OutputFields(
    "say.text", "id", "session", "in", "out", "cached", "cost", "model", "error", "done=true"
)
LINES = AgentCli(name="mine", output="json_lines", fields=FIELDS, error_patterns=("^fatal:",))


def result(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    normalise_result(text, None)
    normalise_result(None, text)
    assert len(clean_output(content).text.encode()) <= MAX_OUTPUT_BYTES + len(TRUNCATED)


def in_project(read: Callable[[Path, bytes], object]) -> Callable[[bytes], object]:
    def target(content: bytes) -> object:
        with TemporaryDirectory() as folder:
            return read(Path(folder), content)

    return target


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def look(project: Path) -> None:
    """Everything that a person can look at."""
    runs = Runs(project, {})
    runs.verify("s")
    runs.rows(10)
    for event in runs.events("s"):
        event_line(event, event.at.tzinfo)  # type: ignore[arg-type]
    runs.info("s")
    work = RunWork(runs, "s")
    for one in work.iterations:
        assert work.output(one) is None or one.folder or one.text
        work.prompt(one)
        work.files(one)
        list(work_rows(one, None, "running"))
        work_line(one, None, "running", 80)


def log(project: Path, content: bytes) -> None:
    put(Path(RunLayout.of(str(project), "s").log), content)
    look(project)


def chained(project: Path, content: bytes) -> None:
    """A log whose chain is intact, whatever its events are: as a hostile repository can have one."""
    lines, previous = [], codec.GENESIS
    for line in content.split(b"\n"):
        body = line[: -codec.SUFFIX_BYTES]
        previous = codec.computed_hash(line, previous)
        lines.append(b'%b,"hash":"%b"}\n' % (body, previous.encode()))
    log(project, b"".join(lines[:-1]))


SEED_LOG = HERE / "corpus" / "log" / "complete.jsonl"


def snapshot(project: Path, content: bytes) -> None:
    put(Path(RunLayout.of(str(project), "s").state), content)
    log(project, SEED_LOG.read_bytes())


def definition(content: bytes) -> None:
    text = content.decode("utf-8", "surrogateescape")
    compile_pipeline(TextWorld({"p.yaml": text, ".claude/stages/s/stage.yaml": text}), "p.yaml", "s")


def template(content: bytes) -> None:
    """A template, then a file for the stage of one."""
    text, files = content.decode("utf-8", "surrogateescape"), stage("s", "executor: {python: a:B}\n")
    with suppress(DefinitionError):
        compile_pipeline(TextWorld({"p.yaml": text, **files}), "p.yaml", "s")
    files |= {"p.yaml": "stages: [s]", f"{STAGE_FILES}/s.yaml": text}
    compile_pipeline(TextWorld(files), "p.yaml", "s")


def schema(content: bytes) -> None:
    """In a file beside a stage; what is accepted can be used."""
    files = {"p.yaml": "nodes: [{id: a, prompt: x, artifact: s.json}]"}
    files["s.json"] = content.decode("utf-8", "surrogateescape")
    rule = compile_pipeline(TextWorld(files), "p.yaml", "s").plan.only_stage.artifact
    assert rule is not None
    for usable in (rule.schema, rule.agent_schema):
        for value in ({}, {"steps": [{"id": "a"}], "goal": "x"}):
            assert len(JsonSchema(usable).mismatches(value)) <= MAX_PROBLEMS + 1


def settings(content: str) -> None:
    files = dict.fromkeys((*PROJECT_SETTINGS, f"/home/{USER_SETTINGS}"), content)
    read = read_settings(TextWorld(files, XDG_CONFIG_HOME="/home"), Report())
    assert all(level.written for level in read.levels)


ITEMS = compile_pipeline(
    TextWorld({"p.yaml": "nodes: [{id: a, prompt: x, termination: {type: items, from: initial.steps}}]"}),
    "p.yaml",
    "s",
).plan


def artifact(project: Path, content: bytes) -> None:
    """One that a run is started with, whose list a stage works through."""
    put(project / "a.json", content)
    found = first_artifact(str(project / "a.json"), ITEMS, {})
    assert found is not None
    assert depth_of(found.value) <= MAX_ARTIFACT_DEPTH
    listed = found.value["steps"]
    done = set[str]()
    for one in elements_of(found.value, "steps", len(listed)):
        assert isinstance(one, Element)
        assert done.issuperset(one.after)
        assert one.value in listed
        done.add(one.id)
    assert len(done) == len(listed)


def description(project: Path, content: bytes) -> None:
    put(project / "mine.yaml", content)
    described_provider(str(project), "mine", "mine.yaml", {})


REQUEST = Request("r", "approval", "k", "why", "why?", ("a", "b"), datetime(2026, 11, 15, tzinfo=UTC))


def controls(project: Path, content: bytes) -> None:
    layout = RunLayout.of(str(project), "s")
    put(Path(layout.control) / "1.json", content)
    put(Path(layout.answers) / "r.json", content)
    pending_controls(layout)
    list(given_answers(layout, "run", [REQUEST]))


def resolution(project: Path, content: bytes) -> None:
    layout, at = RunLayout.of(str(project), "s"), REQUEST.opened_at
    put(Path(layout.escalations) / f"{escalation_id('run', 'r', at)}.resolution.yaml", content)
    state = RunState("s", "run", "pipeline", RunStatus.AWAITING_APPROVAL, at, 1, at, at, requests=(REQUEST,))
    place_resolutions(layout, state, at, NO_SECRETS)
    list(given_answers(layout, "run", [REQUEST]))


def attempt(project: Path, content: bytes) -> None:
    here = RunLayout.of(str(project), "s").iteration("stage-00-a", 1).attempt(1)
    for path in (here.claim, here.exit, here.output, here.errors):
        put(Path(path), content)
    if claim := read_claim(here, "r/0/1/1/1"):
        claim.is_of(here)
    if record := read_exit(here, "r/0/1/1/1"):
        exit_of(record, here, ProviderChoice("claude", ""))


def lock(project: Path, content: bytes) -> None:
    put(Path(lock_file(str(project), "s")), content)
    read_lock(str(project), "s")


def ledger(project: Path, content: bytes) -> None:
    put(project / "daily/ledger.jsonl", content)
    DailyLedger(str(project / "daily"), FakeClock()).open()


def tree(project: Path, content: bytes) -> None:
    objects = GitObjects(str(project), "sha1")
    assert len(list(objects.tree(objects.add("tree", content)))) <= len(content)


def stop_reason(project: Path, content: bytes) -> None:
    put(Path(stop_reason_file(str(project), "s")), content)
    for reason in Runs(project).stopped():
        assert reason.at <= datetime.max.replace(tzinfo=UTC)


def recording(project: Path, content: bytes) -> None:
    put(project / "cassette.jsonl", content)
    put(project / "recording.json", content)
    read_recording(str(project / "cassette.jsonl"))


def conversation(project: Path, content: bytes) -> None:
    put(project / "abc.json", content)
    if kept := SessionStore(str(project)).load("abc"):
        kept.history()


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda content: read(content.decode("utf-8", "replace"))


def repository(root: Path, content: bytes) -> object:
    """Whatever is in these files, the test command is one of ours."""
    for name in ("package.json", "Makefile", ".gitignore"):
        (root / name).write_bytes(content)
    survey = examine_project(root, {})
    assert survey.test in ("", "npm test", "make test")
    return survey


def checked(parser: CheckParser, pattern: str) -> Target:
    def read(content: bytes) -> None:
        for code in (0, 1):
            found = read_check(parser, "pass", CheckEnd(code), content, content)
            report = check_feedback(FailedCheck("c", found.outcome, content))
            told = failing_text([CheckRecord("c", 1, found.outcome.status, feedback=report)])
            assert len(told.encode()) <= MAX_FEEDBACK_BYTES

    return Target(read, seeds=tuple(sorted(CHECKS.glob(pattern))))


def file_of_a_check(content: bytes) -> None:
    words = tuple(content.decode("utf-8", "replace").split()[:3])
    for rule in (FileRule("f", words, words, words), FileRule("f", ("x",), ("\n",), ("# x",))):
        read = read_findings(read_criteria(Criteria((rule,)), [content]), "pass")
        assert len(read.failures) <= 3 * (MAX_KEPT_FAILURES + 2)
        assert len(read.outcome.reason) <= 2 * MAX_SIGNATURE_CHARS


def tests_of_a_check(content: bytes) -> None:
    found = decoded_tests(content)
    assert isinstance(found, str) or counts_of(found).total == len(found)


def criteria(content: bytes) -> None:
    try:
        item = msgspec.json.decode(content)
    except NOT_JSON:
        return
    found = criteria_of(item, "criteria", ("test",))
    assert set(found.checks) <= {"test"}
    assert len(found.rules) + len(found.problems) <= MAX_CRITERIA + 1
    assert all(is_inside(rule.path) for rule in found.rules)


def git_before(project: Path, content: bytes) -> None:
    put(project / "git.json", content)
    if before := read_before(str(project / "git.json"), str(project)):
        named = (before.repositories, before.settings, before.hooks, before.files, before.links)
        places = (*before.others, *before.missing, *(place for found in named for place in found))
        assert all(place.startswith(f"{project}/") for place in places)


def git_command(value: str) -> None:
    assert len(words_in(value)) <= 8 * (len(value) + 1)


def reply(value: str) -> None:
    """What a model answered to a stage that asked it itself."""
    for found in (yaml_in(value), json_in(value)):
        assert found is None or isinstance(found, dict)


def pipeline_state(project: Path, content: bytes) -> None:
    """A state, and the same bytes as the index."""
    store = PipelineStateStore(project / ".agentforge/pipeline")
    put(store.active_path / "PL-1.yaml", content)
    if found := store.load("PL-1"):
        assert PipelineState.from_dict(found.to_dict()) == found
    assert len(store.list()) == bool(found)
    put(store.index_path, store.index_path.read_bytes()[:71] + content)
    store.list()


TARGETS = {
    "junit": checked("junit", "*.xml"),
    "pytest": checked("pytest", "*.txt"),
    "lint_lines": checked("lines", "[grm][cuy]*.txt"),
    "criteria": Target(criteria),
    "tests_of_a_check": Target(tests_of_a_check),
    "file_of_a_check": Target(file_of_a_check, seeds=(HERE.parents[1] / "README.md",)),
    "repository": Target(in_project(repository)),
    "claude": stream_of(CLAUDE),
    "codex": stream_of(CODEX),
    "opencode": stream_of(OPENCODE),
    "gemini": stream_of(GEMINI),
    "json_lines": Target(interpreter(CliAgent(LINES, {}))),
    "api": Target(interpreter(ApiProvider({}))),
    "result": Target(result),
    "judgment": Target(text(read_judgment)),
    "hook_answer": Target(text(read_answer), (ValueError,)),
    "cassette": Target(text(lambda given: parse_cassette(given, "c.jsonl")), (ProviderUnusable,)),
    "recording": Target(in_project(recording), (AgentForgeError,)),
    "log": Target(in_project(log), (AgentForgeError,)),
    "chained_log": Target(in_project(chained), (AgentForgeError,), (SEED_LOG,)),
    "snapshot": Target(in_project(snapshot), (AgentForgeError,)),
    "definition": Target(definition, (DefinitionError,)),
    "template": Target(template, (DefinitionError,)),
    "settings": Target(text(settings)),
    "schema": Target(schema, (DefinitionError,), WORK_PLAN),
    "artifact": Target(in_project(artifact), (AgentForgeError,)),
    "description": Target(in_project(description), (InvalidSettings, ProviderUnusable)),
    "controls": Target(in_project(controls)),
    "resolution": Target(in_project(resolution)),
    "attempt": Target(in_project(attempt)),
    "git_before": Target(in_project(git_before)),
    "git_command": Target(text(git_command)),
    "lock": Target(in_project(lock)),
    "ledger": Target(in_project(ledger), (AgentForgeError,)),
    "tree": Target(in_project(tree), UNREADABLE),
    "stop_reason": Target(in_project(stop_reason)),
    "conversation": Target(in_project(conversation)),
    "pipeline_state": Target(in_project(pipeline_state)),
    "reply": Target(text(reply)),
}


def seeds_of(name: str) -> dict[str, bytes]:
    found = [*sorted((HERE / "corpus" / name).glob("*")), *TARGETS[name].seeds]
    return {path.name: path.read_bytes() for path in found}


def check(name: str, content: bytes) -> None:
    target = TARGETS[name]
    try:
        target.read(content)
    except target.raises as error:
        json.dumps(str(error))

"""The recorder: each exchange exactly once, with the changes of files."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, plan_of, stage

from agentforge.adapters.host.project_files import WorkspaceFiles
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule
from agentforge.model.cassette import (
    FORMAT,
    VERSION,
    AnyStep,
    Cassette,
    Delete,
    Fail,
    Header,
    RecordedAnswer,
    Say,
    WriteArtifact,
    WriteFile,
    WriteResult,
    parse_cassette,
)
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.hook import Hook
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place, inner_place
from agentforge.model.result import Decision, Result
from agentforge.model.secrets import Redactor
from agentforge.model.task import AgentTask, HookTask, JudgeTask, QueueTask
from agentforge.ports.provider import ExecuteResult
from agentforge.runtime.artifacts import ArtifactRules
from agentforge.runtime.conclusion import Attempted
from agentforge.runtime.recorder import Recorder, exit_steps, output_steps, result_steps
from agentforge.views.artifacts import RunKeys

PLAN = plan_of(stage("plan", runs=3), block("claude codex", stage("draft")))
HERE = Place("0", 1, "stage-00-plan")


class Kept:
    """A recorded run, as an engine sees it; another one may recover it."""

    def __init__(self, root: Path) -> None:
        self.layout = RunLayout.of(str(root), "s")
        self.root = root
        self.workspace = WorkspaceFiles(str(root), {"PATH": "/usr/bin:/bin"})
        self.recorder = self.another()

    def put(self, path: str, content: bytes | None) -> None:
        if content is None:
            (self.root / path).unlink()
        else:
            (self.root / path).write_bytes(content)

    def another(self) -> Recorder:
        header = Header(FORMAT, VERSION, session="s")
        self.recorder = Recorder(
            str(self.root), self.layout, PLAN, self.workspace, redactor=Redactor(["hush"]), header=header
        )
        self.recorder.begin()
        return self.recorder

    def about(self, iteration: int = 1, attempt: int = 1, place: Place = HERE) -> Attempted:
        node = PLAN.stage(place.path, place.branch)
        assert node is not None
        task = AgentTask(place, node.id, iteration, attempt, node=node, by=node.provider, started_at=NOON)
        return Attempted(task, self.layout.iteration(place.folder, iteration))

    def keep(self, about: Attempted, said: str = "done") -> None:
        draft = self.recorder.draft(about, ExecuteResult(said))
        if draft is not None:
            self.recorder.keep(draft, about, completed(about))

    @property
    def cassette(self) -> Cassette:
        return parse_cassette(Path(self.layout.cassette).read_text(), "c")

    def steps(self) -> list[tuple[AnyStep, ...]]:
        return [exchange.steps for exchange in self.cassette.exchanges]


def completed(about: Attempted) -> f.IterationCompleted:
    return f.IterationCompleted(
        about.task.name, about.task.attempt, Decision.CONTINUE, "", about.here.result, Result(), 10
    )


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_file_changes_since_the_last_exchange_are_recorded(kept: Kept) -> None:
    kept.put("old.txt", b"old")
    kept.recorder = kept.another()
    kept.put("a.txt", b"one hush")
    kept.keep(kept.about(1))
    kept.put("a.txt", b"two")
    kept.put("old.txt", None)
    kept.keep(kept.about(2))
    kept.keep(kept.about(3))
    said = Say(text="done\n")
    assert kept.steps() == [
        (said, WriteFile(path="a.txt", text="one [secret]"), WriteFile(path="old.txt", text="old")),
        (said, WriteFile(path="a.txt", text="two"), Delete(path="old.txt")),
        (said,),
    ]


def test_a_repeated_outcome_is_recorded_once(kept: Kept) -> None:
    kept.keep(kept.about())
    kept.keep(kept.about(), "otherwise")
    kept.another()
    kept.keep(kept.about(), "by another engine")
    assert kept.steps() == [(Say(text="done\n"),)]


def test_a_draft_survives_its_engine_with_the_result_as_the_agent_wrote_it(kept: Kept) -> None:
    about = kept.about()
    Path(about.here.root).mkdir(parents=True)
    Path(about.here.result).write_text('{"summary": "raw"}')
    kept.put("a.txt", b"one")
    assert kept.recorder.draft(about, ExecuteResult("done")) is not None
    Path(about.here.result).write_text('{"summary": "raw", "errors": []}')
    kept.another()
    kept.keep(about)
    (steps,) = kept.steps()
    assert WriteResult(value={"summary": "raw"}) in steps
    assert not Path(about.here.attempt(1).root, "exchange.json").exists()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_cut_off_by_a_crash_is_dropped_and_recorded_again(kept: Kept, cut: int) -> None:
    kept.keep(kept.about(1))
    kept.keep(kept.about(2))
    file = Path(kept.layout.cassette)
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    kept.another()
    kept.keep(kept.about(2))
    assert file.read_bytes() == whole


def test_attempts_are_numbered_as_a_replay_makes_them(kept: Kept) -> None:
    kept.keep(kept.about(1, attempt=2))
    kept.keep(kept.about(1, attempt=5))
    found = [(exchange.attempt, exchange.made) for exchange in kept.cassette.exchanges]
    assert found == [(1, 2), (2, 5)]


def test_files_of_a_lost_attempt_belong_to_the_next(kept: Kept) -> None:
    kept.put("gone.txt", b"x")
    kept.keep(kept.about(1))
    kept.put("a.txt", b"one")
    kept.put("gone.txt", None)
    kept.keep(kept.about(2))
    kept.recorder.forget(kept.about(2))
    kept.recorder.forget(kept.about(3))
    kept.another()
    kept.keep(kept.about(2, attempt=2))
    changes = (WriteFile(path="a.txt", text="one"), Delete(path="gone.txt"))
    assert kept.steps()[1:] == [(Say(text="done\n"), *changes)]


def test_branches_judges_and_queues_have_separate_exchanges(kept: Kept) -> None:
    for provider in ("claude", "codex"):
        kept.keep(kept.about(1, place=inner_place(PLAN.steps[1], 1, provider, 0)))
    judged = f.JudgeCompleted("success", f.JudgeResult(stop=True, reason="hush"))
    for _ in range(2):
        kept.recorder.ended(
            JudgeTask(HERE, "plan", 1, 1, node=stage("plan"), by=PLAN.judge, started_at=NOON),
            judged,
            ExecuteResult('{"stop": true}'),
        )
    for left in (3, 2):
        kept.recorder.queue(QueueTask(HERE, "plan", 0), left)
    found = [(e.kind, e.node, e.branch, e.iteration, e.remaining) for e in kept.cassette.exchanges]
    assert found == [
        ("work", "parallel-duel", "claude", 1, None),
        ("work", "parallel-duel", "codex", 1, None),
        ("judge", "stage-plan", "", 1, None),
        ("queue", "stage-plan", "", 0, 2),
    ]
    outcome = kept.cassette.exchanges[2].outcome
    assert outcome is not None
    assert outcome.data["result"]["reason"] == "[secret]"


def asked(seq: int, reason: str, key: str = "", subject: str = "", at: Cursor | None = None) -> Event:
    fact = f.RequestOpened(
        f"{reason}-{seq}", "escalation", key or reason, reason, "?", ("x",), subject=subject
    )
    return Event(seq, NOON, "s", "r", fact, at or Cursor("0", 1, 1))


def answered(seq: int, id: str, answer: str = "x", text: str = "") -> Event:
    return Event(seq, NOON, "s", "r", f.RequestAnswered(id, answer, "alice", text))


def test_answers_are_recorded_once_in_every_engine(kept: Kept) -> None:
    events = [
        asked(1, "question", "question:db@0/1/1/0", "db"),
        answered(2, "question-1", "hush", "not hush"),
        asked(3, "approval", "approval@1.0/1/1/0", at=Cursor("1.0", 2, 1, "codex")),
        asked(4, "checkpoint", "checkpoint:go", "go", Cursor("1", 1, 0)),
        answered(5, "checkpoint-4"),
        answered(6, "approval-3", "reject", "Shorter."),
        answered(7, "unknown-9"),
        asked(8, "checkpoint", "checkpoint:go", "go", Cursor("1", 1, 0)),
        answered(9, "checkpoint-8", "another"),
    ]
    for event in events:
        kept.recorder.hear(event)
    first = kept.cassette.exchanges
    assert [(e.kind, e.node, e.branch, e.stage, e.iteration, e.attempt, e.answer) for e in first] == [
        ("answer", "stage-plan", "", "plan", 1, None, said("question", "[secret]", "db", "not [secret]")),
        ("answer", "parallel-duel", "", "duel", 0, None, said("checkpoint", "x", "go")),
        (
            "answer",
            "parallel-duel/run-002",
            "codex",
            "draft",
            1,
            None,
            said("approval", "reject", "", "Shorter."),
        ),
        ("answer", "parallel-duel", "", "duel", 0, None, said("checkpoint", "another", "go")),
    ]
    assert [exchange.made for exchange in first] == [None, None, None, 2], "opened a second time"
    kept.another()
    for event in events:
        kept.recorder.hear(event)
    assert kept.cassette.exchanges == first


def said(reason: str, answer: str, subject: str = "", text: str = "") -> RecordedAnswer:
    return RecordedAnswer(reason, answer, subject, "alice", text)


def test_answers_about_attempts_are_numbered_as_a_replay_makes_them(kept: Kept) -> None:
    """The first of three attempts was lost."""
    heard: list[Event] = []
    for number in (1, 2, 3):
        if number > 1:
            kept.keep(kept.about(1, attempt=number))
        about = asked(number, "at_most_once", f"at_most_once@0/1/1/{number}")
        heard += [about, answered(9, f"at_most_once-{number}", f"answer {number}")]
        for event in heard[-2:]:
            kept.recorder.hear(event)
    kept.another()
    for event in heard:
        kept.recorder.hear(event)
    found = [(e.attempt, e.answer.answer) for e in kept.cassette.exchanges if e.answer]
    assert found == [(None, "answer 1"), (1, "answer 2"), (2, "answer 3")]


def test_answer_of_a_damaged_log_leaves_the_cassette_readable(kept: Kept) -> None:
    kept.recorder.hear(asked(1, "approval", at=Cursor("7", 1, 1)))
    kept.recorder.hear(answered(2, "approval-1"))
    (only,) = kept.cassette.exchanges
    assert (only.node, only.stage) == ("", PLAN.session.name)


def test_a_workspace_with_too_many_files_is_noted(kept: Kept) -> None:
    kept.workspace = WorkspaceFiles(str(kept.root), {"PATH": "/usr/bin:/bin"}, max_files=1)
    for name in ("a.txt", "b.txt"):
        kept.put(name, b"one")
    kept.another()
    kept.keep(kept.about())
    (only,) = kept.cassette.exchanges
    assert only.notes == ("the workspace has too many files to record changes",)


def test_the_header_holds_the_plan_that_is_in_force(kept: Kept) -> None:
    kept.keep(kept.about())
    assert kept.cassette.header.plan == PLAN
    changed = replace(PLAN, passes=2)
    recorder = Recorder(
        str(kept.root),
        kept.layout,
        changed,
        kept.workspace,
        redactor=Redactor(()),
        header=Header(FORMAT, VERSION, session="s"),
    )
    recorder.begin()
    assert kept.cassette.header.plan == changed
    assert len(kept.cassette.exchanges) == 1


def called(attempt: int, delivery: str = "d-1") -> HookTask:
    review = Hook("iteration_end-1", "iteration_end", "webhook", url="http://127.0.0.1")
    at = Cursor("0", 1, 1)
    return HookTask(HERE, "plan", 1, attempt, hook=review, delivery=delivery, started_at=NOON, at=at)


def test_calls_of_hooks_are_recorded_once_and_lost_ones_are_not(kept: Kept) -> None:
    failed = f.HookFailed("iteration_end-1", "iteration_end", "d-1", 1, message="not hush", retry=True)
    answered = f.HookCompleted("iteration_end-1", "iteration_end", "d-1", 3, context="fine")
    for _ in range(2):
        kept.recorder.ended(called(1), failed)
    kept.recorder.ended(called(2), replace(answered, attempt=2))
    kept.another()
    kept.recorder.ended(called(2), f.HookLost("iteration_end-1", "iteration_end", "d-1", 2))
    kept.recorder.ended(called(3), answered)
    kept.recorder.ended(called(1, "d-2"), replace(answered, delivery="d-2", attempt=1))
    found = kept.cassette.exchanges
    assert [(e.kind, e.node, e.iteration, e.attempt, e.made, e.about) for e in found] == [
        ("hook", "stage-plan", 1, 1, None, "iteration_end-1:d-1"),
        ("hook", "stage-plan", 1, 2, 3, "iteration_end-1:d-1"),
        ("hook", "stage-plan", 1, 1, None, "iteration_end-1:d-2"),
    ]
    outcomes = [exchange.outcome for exchange in found]
    assert [(o.type, o.data.get("message")) for o in outcomes if o] == [
        ("hook_failed", "not [secret]"),
        ("hook_complete", None),
        ("hook_complete", None),
    ]


def test_what_a_hook_answered_to_a_request_is_not_a_persons_answer(kept: Kept) -> None:
    kept.recorder.hear(asked(1, "runtime_limit"))
    fact = f.RequestAnswered("runtime_limit-1", "60", "hook request-extend")
    kept.recorder.hear(Event(2, NOON, "s", "r", fact))
    assert not kept.cassette.exchanges


def test_an_answer_for_the_run_as_a_whole_is_recorded(kept: Kept) -> None:
    opened = asked(1, "hook_pause", subject="session_start-1")
    kept.recorder.hear(replace(opened, cursor=None))
    kept.recorder.hear(answered(2, "hook_pause-1", "continue"))
    (only,) = kept.cassette.exchanges
    assert (only.node, only.iteration) == ("", 0)


def planning(kept: Kept) -> Attempted:
    about = kept.about()
    node = replace(about.task.node, artifact=ArtifactRule({"type": "object"}))
    Path(about.here.root).mkdir(parents=True)
    rules = ArtifactRules(plan_of(stage()), RunLayout(about.project, "s"), RunKeys("REQ-1"))
    return replace(about, task=replace(about.task, node=node), artifacts=rules)


@pytest.mark.parametrize(
    ("written", "returned", "step"),
    [
        ('{"key": "hush"}', {"a": 2}, WriteArtifact(value={"key": "[secret]"})),
        ("{hush", {"a": 2}, WriteArtifact(text="{[secret]")),
        (None, {"hush": 2}, WriteArtifact(value={"[secret]": 2})),
        ('{"a": 1, "request_id": "REQ-1"}', None, WriteArtifact(value={"a": 1})),
        ('{"a": 1, "request_id": "REQ-2"}', None, WriteArtifact(value={"a": 1, "request_id": "REQ-2"})),
        (None, None, None),
    ],
)
def test_artifact_is_recorded_as_the_agent_left_it(
    kept: Kept, written: str | None, returned: dict[str, Any] | None, step: WriteArtifact | None
) -> None:
    about = planning(kept)
    if written is not None:
        Path(about.here.artifact).write_text(written)
    ended = ExecuteResult("done", result={}, artifact=returned)
    draft = kept.recorder.draft(about, ended)
    assert draft is not None
    expected = (step,) if step else ()
    assert draft.exchange.steps == (Say(text="done\n"), WriteResult(value={}), *expected)


def test_file_of_the_agent_s_own_is_not_the_artifact(kept: Kept) -> None:
    about = replace(planning(kept), artifacts=None)
    Path(about.here.artifact).write_text("{}")
    draft = kept.recorder.draft(about, ExecuteResult("done"))
    assert draft is not None
    assert draft.exchange.steps == (Say(text="done\n"),)


def test_recorded_outcome_does_not_tell_where_the_artifact_was(kept: Kept) -> None:
    about = planning(kept)
    draft = kept.recorder.draft(about, ExecuteResult("done"))
    assert draft is not None
    artifact = Artifact("stage-00-plan/iterations/001/artifact.json", 2, "0" * 64, value={"key": "hush"})
    kept.recorder.keep(draft, about, replace(completed(about), artifact=artifact))
    outcome = kept.cassette.exchanges[0].outcome
    assert outcome is not None
    assert outcome.data["artifact"]["file"] == "artifact.json"
    assert outcome.data["artifact"]["value"] == {"key": "[secret]"}


def test_no_part_of_a_recorded_exchange_keeps_a_secret(tmp_path: Path) -> None:
    layout = RunLayout(str(tmp_path), "s").iteration("stage-00-plan", 1)
    ended = ExecuteResult(
        output="says hush",
        failure=Failure(FailureKind.PROVIDER_CRASHED, "not hush"),
        result={"summary": "did hush"},
    )
    redactor = Redactor(["hush"])
    steps = (
        *output_steps(ended, redactor),
        *result_steps(layout, ended, redactor),
        *exit_steps(ended, redactor),
    )
    assert steps == (
        Say(text="says [secret]\n"),
        WriteResult(value={"summary": "did [secret]"}),
        Fail(kind=FailureKind.PROVIDER_CRASHED, message="not [secret]"),
    )

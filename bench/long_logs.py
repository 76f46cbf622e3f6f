"""Logs of a given length, as a run with many ordinary iterations would have left them."""

from pathlib import Path

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import Buffering
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan, StageNode
from agentforge.model.result import Decision, Result, Signals, Usage, WorkReport
from agentforge.model.spending import Amount
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.view_files import StateWriter
from bench.agents import InProcess, engine_in, in_process_pipeline

REASON = "two of the five cases are left"
RESULT = Result(
    summary="Wrote the failing test for the empty input, made it pass, and ran the whole suite: all green.",
    work=WorkReport(
        items_completed=("empty-input",),
        files_touched=("src/parser.py", "src/tokens.py", "tests/test_parser.py"),
    ),
    signals=Signals(notes=REASON),
    reason=REASON,
)
USAGE = Usage(input_tokens=18_204, output_tokens=1_377, cached_tokens=15_360, cost_usd=0.0412)


def long_run(root: Path, events: int, reserves: Amount | None = None) -> RunLayout:
    """A run interrupted after that many events, with its state.json; written when it is first asked for.
    `reserves`: what each attempt reserves, below caps."""
    session = f"events-{events}{'-capped' if reserves else ''}"
    layout = RunLayout.of(str(root), session)
    return layout if Path(layout.log).exists() else _write(root, layout, events, reserves)


def _write(root: Path, layout: RunLayout, events: int, reserves: Amount | None) -> RunLayout:
    session = layout.session
    writer = JsonlLog(layout.log, Buffering(events=1000)).open()
    journal = Journal(session, writer, SystemClock())
    try:
        plan = _plan(root, session, events)
        if reserves:
            plan = plan.with_caps(Amount(cost_usd=1e6, tokens=10**12))
        _record(journal, layout, plan, events, reserves)
        journal.wait_for_disk()
        StateWriter(layout, journal, HeadKeeper(layout.root, {})).put()
    finally:
        journal.close()
    return layout


def _plan(root: Path, session: str, events: int) -> Plan:
    return engine_in(root, InProcess()).compile(in_process_pipeline(events), session=session).plan


def _record(journal: Journal, layout: RunLayout, plan: Plan, events: int, reserves: Amount | None) -> None:
    node = plan.nodes[0]
    assert isinstance(node, StageNode)
    provider, model = node.provider.type, node.provider.model
    journal.record(
        f.SessionStarted("pipeline", "f" * 32, plan, "bench", format=f.LOG_FORMAT), Cursor("0", 0, 0)
    )
    journal.record(f.NodeStarted(node.id, node.path, runs=node.runs), Cursor("0", 1, 0))
    number = 0
    while journal.state.seq + 3 <= events:
        number += 1
        here, files = Cursor(node.path, 1, number), layout.iteration(plan.steps[0].dir, number)
        journal.record(f.IterationStarted(node.id, node.stage, provider, model, prompt_sha256="a" * 64), here)
        journal.record(f.AttemptStarted(1, 2, provider, model, reserves=reserves), here)
        journal.record(
            f.IterationCompleted(
                stage=node.id,
                attempt=1,
                decision=Decision.CONTINUE,
                reason=REASON,
                result_file=files.result,
                result=RESULT,
                duration_ms=41_280,
                output=files.output,
                usage=USAGE,
            ),
            here,
        )

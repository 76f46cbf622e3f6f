"""The read model: one fold of a run's events, which can be stored and read back."""

import msgspec
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import play

from agentforge.views.run_model import RunModel, fold_events

PLAN = plan_of(block("claude codex", stage("draft", runs=2)), stage("merge"))
SCRIPT = """
    > start
    < node_start duel
    < claude: parallel_provider_start
    < codex: parallel_provider_start
    ? claude: prepare draft 1
    ? codex: prepare draft 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: prepare draft 1
    > claude: completed
    ? claude: prepare draft 2
    ? codex: prepare draft 1
"""


def test_read_model_survives_being_stored() -> None:
    model = fold_events(play(PLAN, SCRIPT).events)
    stored = msgspec.json.decode(msgspec.json.encode(model), type=RunModel)
    assert stored == model


def test_stored_read_model_continues_unchanged() -> None:
    events = play(PLAN, SCRIPT).events
    for cut in range(1, len(events)):
        begun = fold_events(events[:cut])
        stored = msgspec.json.decode(msgspec.json.encode(begun), type=RunModel)
        assert fold_events(events[cut:], stored) == fold_events(events)


def test_read_model_started_from_a_state_skips_its_events() -> None:
    events = play(PLAN, SCRIPT).events
    model = fold_events(events[:6])
    for event in events:
        model.catch_up(event)
    assert model == fold_events(events)

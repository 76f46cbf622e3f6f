"""What must hold for the hooks of a run after any crash, by its log, the service that got its webhooks and
the ledger of its scripts and functions."""

import json
from collections import Counter
from collections.abc import Iterator

from .story import Story

OUTCOMES = ("hook_complete", "hook_failed", "hook_timeout", "hook_lost")
CLOSED = ("effect_done", "effect_reconciled")
ANSWERS = ("hook_complete", "hook_skipped")
MAX_LOST = 3
"""Number of calls that may be lost in a row before a person is asked in any case."""
OF_HOOKS = "hook/"
"""How the notes of scripts and functions begin in the ledger."""


def hook_violations(story: Story) -> Iterator[str]:
    for check in (_tries, _effects, _deliveries, _ran, _losses, _points):
        yield from check(story)


def _facts(story: Story, *types: str) -> Iterator[tuple[int, str, dict, dict]]:
    for event in story.events():
        if event["type"] in types:
            yield event["seq"], event["type"], event["cursor"] or {}, event["data"]


def _tries(story: Story) -> Iterator[str]:
    """The tries of a call are numbered 1, 2, 3 …, each has one outcome, and none follows an answer."""
    tries: dict[str, int] = {}
    open_tries: set[tuple[str, int]] = set()
    answered: set[str] = set()
    for seq, kind, _, data in _facts(story, "hook_start", *OUTCOMES):
        delivery, number = data["delivery"], data["attempt"]
        if kind == "hook_start":
            if number != tries.get(delivery, 0) + 1:
                yield f"event {seq}: try {number} of {delivery} after {tries.get(delivery, 0)}"
            if delivery in answered:
                yield f"event {seq}: {data['hook']} is called again, and its answer is recorded"
            tries[delivery] = number
            open_tries.add((delivery, number))
            continue
        if (delivery, number) not in open_tries:
            yield f"event {seq}: {kind} of a try that isn't open"
        open_tries.discard((delivery, number))
        answered |= {delivery} if kind == "hook_complete" else set()
    yield from (f"try {number} of {delivery} has no outcome" for delivery, number in open_tries)
    if story.scenario.ends == "completed":
        yield from (f"call {delivery} has no answer" for delivery in tries.keys() - answered)


def _effects(story: Story) -> Iterator[str]:
    """Every try of a webhook is an effect with the key of its call, which is closed once."""
    webhooks = Counter(
        (data["delivery"], data["attempt"])
        for _, _, _, data in _facts(story, "hook_start")
        if data.get("action", "call") == "webhook"
    )
    intended = Counter((data["key"], data["attempt"]) for _, _, _, data in _facts(story, "effect_intended"))
    closed = Counter((data["key"], data["attempt"]) for _, _, _, data in _facts(story, *CLOSED))
    if not webhooks == intended == closed:
        yield f"webhooks {webhooks}, intended effects {intended}, closed effects {closed}"


def _deliveries(story: Story) -> Iterator[str]:
    """By the service: a try arrives once, only if it is intended, and never after the answer is recorded. A
    place has one key, and a key has one place."""
    arrived: Counter[tuple[str, int]] = Counter()
    places: dict[str, set[tuple[object, ...]]] = {}
    for got in story.received():
        key, name = got["key"], f"{got['hook']} {got['key']} try {got['attempt']}"
        if not got["intended"]:
            yield f"{name} arrived without an intent"
        if got["answered"]:
            yield f"{name} arrived after its answer was recorded"
        if got["delivery"] != key:
            yield f"{name} says that it is {got['delivery']}"
        arrived[key, got["attempt"]] += 1
        place = (got["hook"], got["event"], got["stage"], got["provider"], got["iteration"])
        places.setdefault(key, set()).add(place)
    yield from (f"{what} arrived {count} times" for what, count in arrived.items() if count > 1)
    if any(len(known) > 1 for known in places.values()) or len({*map(tuple, places.values())}) < len(places):
        yield f"keys and places don't match: {places}"
    for _, _, _, data in _facts(story, "hook_complete"):
        if data.get("status") == 200 and not arrived[data["delivery"], data["attempt"]]:
            yield f"try {data['attempt']} of {data['hook']} is answered, and it never arrived"


def _ran(story: Story) -> Iterator[str]:
    """A try of a script or a function runs at most once, and to its end if it is answered."""
    notes = Counter((note["attempt"], note["what"]) for note in story.notes())
    called: dict[str, str] = {}
    for _, kind, _, data in _facts(story, "hook_start", *OUTCOMES):
        name = f"{OF_HOOKS}{data['delivery']}/{data['attempt']}"
        if kind == "hook_start":
            called[name] = data.get("action", "call")
        elif called[name] in ("script", "call"):
            ran, ended = notes[name, "start"], notes[name, "end"]
            if kind == "hook_complete" and not (ran and ended):
                yield f"{name} is answered and didn't run to its end"
            if kind == "hook_lost" and not data.get("started", True) and ran:
                yield f"{name} counts as never started and ran"
    yield from (
        f"{name}: {what} {count} times"
        for (name, what), count in notes.items()
        if name.startswith(OF_HOOKS) and count > 1
    )
    ran = {name for name, what in notes if name.startswith(OF_HOOKS)}
    yield from (f"{name} ran and isn't in the log" for name in ran - called.keys())


def _losses(story: Story) -> Iterator[str]:
    """A script that survives isn't lost; a lost call isn't a failed one; and it is repeated or asked about,
    as its hook says."""
    disturbed = {attempt for role, attempt in story.killed if role in ("supervisor", "agent")}
    actions = {data["delivery"]: data.get("action", "call") for _, _, _, data in _facts(story, "hook_start")}
    refused = {(got["key"], got["attempt"]) for got in story.received() if got["refused"]}
    for _, kind, _, data in _facts(story, "hook_lost", "hook_failed", "hook_timeout"):
        name = f"{OF_HOOKS}{data['delivery']}/{data['attempt']}"
        if kind == "hook_lost" and story.scenario.control is not None:
            continue  # It was stopped.
        if kind == "hook_lost" and not story.killed:
            yield f"{name} is lost, and nothing was killed"
        is_script, left_alone = actions[data["delivery"]] == "script", name not in disturbed
        if is_script and left_alone and (kind != "hook_lost" or data.get("started", True)):
            yield f"the script {name} was left alone and has {kind}"
        if not is_script and kind != "hook_lost" and (data["delivery"], data["attempt"]) not in refused:
            yield f"{name} has {kind}, and nobody refused it"
    yield from _asked(story)


def _asked(story: Story) -> Iterator[str]:
    """Whether a person decides about a lost call."""
    plan = story.events()[0]["data"]["plan"]
    asks = {hook["id"] for hook in plan["pipeline"]["hooks"] if hook.get("on_lost") == "pause"}
    lost: dict[tuple[str, str], dict] = {}
    in_a_row: Counter[str] = Counter()
    for seq, kind, at, data in _facts(story, "hook_lost", "request_opened", "hook_start"):
        place = json.dumps(at)
        if kind == "hook_lost":
            lost[data["hook"], place] = data
            in_a_row[data["delivery"]] += 1
        elif kind == "hook_start":
            known = lost.pop((data["hook"], place), {})
            if data["hook"] in asks and known.get("started", bool(known)):
                yield f"event {seq} repeats {data['hook']}, and nobody was asked"
        elif data.get("reason") == "hook_lost":
            known = lost.pop((data["subject"], place), {})
            if not known:
                yield f"event {seq} asks about a hook that isn't lost"
            elif data["subject"] not in asks and in_a_row[known["delivery"]] < MAX_LOST:
                yield f"event {seq} asks about {data['subject']}, which is to be repeated"


def _points(story: Story) -> Iterator[str]:
    """No attempt starts, and no node completes, while a hook is being called at its place."""
    calling: dict[str, dict] = {}
    waiting = ("attempt_start", "node_complete", "stage_complete", "session_complete")
    for event in story.events():
        kind, at = event["type"], event["cursor"] or {}
        place = f"{at.get('node_path')}@{at.get('provider')}"
        if kind == "hook_start":
            calling[place] = event["data"]
        elif kind in ANSWERS:
            calling.pop(place, None)
        elif kind in waiting and place in calling:
            yield f"event {event['seq']}: {kind} while {calling[place]['hook']} is being called"


def course(events: list[dict]) -> list[tuple[object, ...]]:
    """What the hooks answered, between which iterations."""
    found = []
    for event in events:
        at, data = event["cursor"] or {}, event["data"]
        place = (at.get("node_path"), at.get("node_run"), at.get("provider"), at.get("iteration"))
        if event["type"] in ANSWERS:
            told = (data.get("action"), data.get("context"), data.get("reason"))
            found.append((event["type"], place, data["hook"], data["point"], *told))
        elif event["type"] == "iteration_complete":
            found.append((event["type"], place))
    return found

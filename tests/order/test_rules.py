"""The rules can say no: each is broken once, in a trace written by hand, and must be noticed."""

import json
import struct
from pathlib import Path

import pytest

from .rules import Call, Event, complaints

RUN = Path("/p/.claude/pipeline-runs/night")
LOG = RUN / "events.jsonl"
ATTEMPT = f"{RUN}/stage-00-work/iterations/001/attempt-1"
DELIVERY = "0b1c"
SCRIPT = f"{RUN}/hooks/{DELIVERY}/attempt-1"
AT = {"node_path": "0", "node_run": 1, "iteration": 1}
CONTROL = f"{RUN}/control/c1.json"
CLAIM = json.dumps({"pid": 20, "host": "here"})
EXIT = json.dumps({"status": "exited"})
PAYLOAD = "a" * 64

EVENTS = [
    Event("session_start", {}, {}, "", 100),
    Event("attempt_start", AT, {"attempt": 1}, "", 200),
    Event("cancel_requested", AT, {"control": "c1"}, "", 300),
    Event("attempt_ending", AT, {"attempt": 1}, "", 400),
    Event("error", AT, {}, PAYLOAD, 500),
    Event("session_aborted", AT, {}, "", 600),
]


def engine(call: str, path: object = "", **more: object) -> Call:
    return {"pid": 10, "role": "engine", "call": call, "path": str(path), **more}


def supervisor(call: str, path: object = "", **more: object) -> Call:
    return {**engine(call, path, **more), "pid": 20, "role": "supervisor"}


def sender(call: str, path: object = "", **more: object) -> Call:
    return {**engine(call, path, **more), "pid": 30, "role": "sender"}


def view(length: int) -> Call:
    text = json.dumps({"snapshot": {"length": length}})
    return engine("rename", f"{RUN}/state.json", source=f"{RUN}/state.json.tmp", text=text)


def head(length: int) -> Call:
    text = json.dumps({"head": {"length": length}})
    return engine("rename", "/home/heads/x.json", source="/home/heads/x.json.tmp", text=text)


def placed(path: str, text: str, by=sender) -> list[Call]:
    draft = f"{path}.draft"
    return [
        by("create", draft, is_new=True),
        by("sync", draft, size=len(text)),
        by("link", path, source=draft, text=text),
        by("unlink", draft),
        by("sync", str(Path(path).parent), size=0),
    ]


STATE = "/home/agentforge"
PROOF = f"{STATE}/runs/x.json"
PROVED = [
    engine("mkdir", STATE, is_new=True),
    engine("sync", "/home", size=0),
    engine("sync", f"{PROOF}.tmp", size=9),
    engine("rename", PROOF, source=f"{PROOF}.tmp", text="012345678"),
    engine("sync", f"{STATE}/runs", size=0),
]
NEW_RUN = [engine("mkdir", RUN, is_new=True), engine("sync", RUN.parent, size=0)]
NEW_LOG = [*NEW_RUN, engine("create", LOG, is_new=True), engine("sync", RUN, size=0), *PROVED]
STARTED = [
    engine("write", LOG, size=200),
    engine("sync", LOG, size=200),
    engine("spawn", argv=["python", "supervisor.py", ATTEMPT]),
]
CLAIMED = [*placed(f"{ATTEMPT}/claim", CLAIM, supervisor), supervisor("fork")]
ASKED = [*placed(CONTROL, "{}"), sender("exit")]
FIRST = [sender("mkdir", f"{RUN}/control", is_new=True), sender("sync", RUN, size=0)]
TAKEN = [engine("write", LOG, size=300), engine("sync", LOG, size=300), engine("unlink", CONTROL)]
KILLED = [
    engine("write", LOG, size=400),
    engine("sync", LOG, size=400),
    engine("kill", target=20, signal=15),
]
ENDED = [
    supervisor("create", f"{ATTEMPT}/output.log", is_new=True),
    supervisor("sync", f"{ATTEMPT}/output.log", size=5),
    supervisor("create", f"{ATTEMPT}/errors.log", is_new=True),
    supervisor("sync", f"{ATTEMPT}/errors.log", size=5),
    supervisor("sync", f"{ATTEMPT}/exit.json.draft", size=len(EXIT)),
    supervisor("rename", f"{ATTEMPT}/exit.json", source=f"{ATTEMPT}/exit.json.draft", text=EXIT),
    supervisor("sync", ATTEMPT, size=0),
    supervisor("exit"),
]
PAYLOAD_DRAFT = f"{RUN}/payloads/{PAYLOAD}.json.tmp"
PAYLOADS = [engine("mkdir", f"{RUN}/payloads", is_new=True), engine("sync", RUN, size=0)]
KEPT = [
    engine("sync", PAYLOAD_DRAFT, size=9),
    engine("rename", f"{RUN}/payloads/{PAYLOAD}.json", source=PAYLOAD_DRAFT, text=""),
    engine("sync", f"{RUN}/payloads", size=0),
    engine("write", LOG, size=600),
    engine("sync", LOG, size=600),
    view(600),
    head(600),
]
GOOD = [*NEW_LOG, *STARTED, *CLAIMED, *FIRST, *ASKED, *TAKEN, *KILLED, *ENDED, *PAYLOADS, *KEPT]


def told(trace: list[Call]) -> str:
    return "\n".join(complaints(trace, LOG, EVENTS))


def without(*dropped: Call) -> list[Call]:
    assert all(call in GOOD for call in dropped)
    return [call for call in GOOD if call not in dropped]


def swapped(one: Call, other: Call) -> list[Call]:
    place = {id(one): other, id(other): one}
    return [place.get(id(call), call) for call in GOOD]


def test_a_run_in_order_is_found_good() -> None:
    assert told(GOOD) == ""


BROKEN = {
    "an intent that isn't synced": (without(STARTED[1]), "the intent of ('attempt', '0', 1, 1) isn't synced"),
    "an act before its intent is synced": (swapped(STARTED[1], STARTED[2]), "the intent of"),
    "a log whose name isn't synced": (without(NEW_LOG[3]), "the log's own name"),
    "a proof that isn't synced": (without(PROVED[2]), "the proof that the run was started here isn't synced"),
    "a proof whose name isn't synced": (without(PROVED[4]), "the proof that the run was started here isn't"),
    "a proof in a folder whose name isn't synced": (without(PROVED[1]), "the folder agentforge of the proof"),
    "a first event before its proof": (
        [GOOD[0], *STARTED[:1], *GOOD[1:]],
        "the proof that the run was started here isn't synced",
    ),
    "an intent to end that isn't synced": (without(KILLED[1]), "the intent to end"),
    "a control whose content isn't synced": (without(ASKED[1]), "visible before its content is synced"),
    "a control whose name isn't synced": (without(ASKED[4]), "the name of c1.json isn't synced"),
    "the first control, whose folder's name isn't synced": (
        without(FIRST[1]),
        "the name of the folder control isn't synced",
    ),
    "a control that is removed before its record is synced": (without(TAKEN[1]), "removed before its record"),
    "a control that is removed at once": (swapped(TAKEN[0], TAKEN[2]), "removed before its record"),
    "a claim whose content isn't synced": (without(CLAIMED[1]), "visible before its content is synced"),
    "a claim that is linked before it is synced": (
        swapped(CLAIMED[1], CLAIMED[2]),
        "visible before its content",
    ),
    "a claim whose name isn't synced": (without(CLAIMED[4]), "before its claim's name is synced"),
    "an agent without a claim": (without(*CLAIMED[:5]), "without a claim"),
    "an exit record whose content isn't synced": (without(ENDED[4]), "the exit record is visible"),
    "an exit record whose name isn't synced": (without(ENDED[6]), "the name of exit.json isn't synced"),
    "output that isn't synced": (without(ENDED[1]), "before output.log is synced"),
    "errors that aren't synced": (without(ENDED[3]), "before errors.log is synced"),
    "a run whose folder's name isn't synced": (
        without(NEW_RUN[1]),
        "the folder night of the log isn't synced",
    ),
    "a payload whose folder's name isn't synced": (
        without(PAYLOADS[1]),
        "the folder payloads of its payload",
    ),
    "a payload that isn't synced": (without(KEPT[0]), "isn't synced"),
    "a payload whose name isn't synced": (without(KEPT[2]), "its payload aaaaaaaaaaaa isn't synced"),
    "a line before its payload": (swapped(KEPT[1], KEPT[3]), "its payload aaaaaaaaaaaa isn't synced"),
    "a view ahead of the log": (without(KEPT[4]), "tells of 600 bytes of the log, of which 400 are synced"),
}


@pytest.mark.parametrize(("trace", "words"), BROKEN.values(), ids=BROKEN)
def test_is_noticed(trace: list[Call], words: str) -> None:
    assert words in told(trace)


@pytest.mark.parametrize(
    ("when", "words"), [("before", "tree_taken of ('attempt', '0', 1, 1)"), ("after", "")]
)
def test_tree_before_an_attempt_is_synced_before_it_starts(when: str, words: str) -> None:
    tree = Event("tree_taken", AT, {"attempt": 1, "when": when}, "", 250)
    found = "\n".join(complaints([*NEW_LOG, *STARTED], LOG, [*EVENTS[:2], tree]))
    assert (words in found) if words else found == ""
    later = [*NEW_LOG, *STARTED[:2], engine("sync", LOG, size=250), STARTED[2]]
    assert complaints(later, LOG, [*EVENTS[:2], tree]) == []


def test_what_a_sync_began_with_counts_and_not_what_came_meanwhile() -> None:
    short = [{**call, "size": 199} if call is STARTED[1] else call for call in GOOD]
    assert "the intent of ('attempt', '0', 1, 1) isn't synced" in told(short)


def test_a_claim_must_say_whose_it_is() -> None:
    other = json.dumps({"pid": 21, "host": "here"})
    trace = [{**call, "text": other} if call is CLAIMED[2] else call for call in GOOD]
    assert "doesn't say whose it is" in told(trace)


@pytest.mark.parametrize("call", ["create", "rename"])
def test_a_claim_or_a_control_must_be_linked(call: str) -> None:
    more = {"is_new": True, "source": "", "text": CLAIM}
    assert "visible before it says" in told([*GOOD, supervisor(call, f"{ATTEMPT}/claim", **more)])
    assert "isn't placed by a link" in told([*GOOD, sender(call, CONTROL, **more)])


def test_an_answer_is_never_removed() -> None:
    assert "an answer is removed" in told([*GOOD, engine("unlink", f"{RUN}/answers/r-1.json")])


def test_an_unheard_pause_may_go_when_a_person_resumes_the_run() -> None:
    by_person = [engine("begin", argv=["launch.py", "engine", "resume", "night"]), engine("unlink", CONTROL)]
    assert told([*NEW_LOG, *by_person]) == ""
    assert "removed before its record" in told([*NEW_LOG, by_person[1]])


def test_a_torn_line_of_another_process_is_kept_before_it_is_cut_off() -> None:
    torn = f"{LOG}.torn-200"
    cut = {**engine("truncate", LOG, size=200), "pid": 11}
    keeping = [
        engine("create", torn, is_new=True),
        engine("sync", torn, size=17),
        engine("sync", RUN, size=0),
    ]
    assert told([*NEW_LOG, *STARTED, *keeping, cut]) == ""
    for dropped in keeping[1:]:
        kept = [call for call in keeping if call is not dropped]
        assert "the torn line isn't kept" in told([*NEW_LOG, *STARTED, *kept, cut])
    assert told([*NEW_LOG, *STARTED, engine("truncate", LOG, size=200)]) == "", "its own half-written line"


def test_what_was_cut_off_is_no_longer_synced() -> None:
    again = [engine("truncate", LOG, size=100), engine("write", LOG, size=200), *STARTED[2:]]
    assert "the intent of" in told([*NEW_LOG, *STARTED[:2], *again])


@pytest.mark.parametrize(
    ("told_of", "words"), [((1, 0), ""), ((2, 0), "2 iterations of stage 0"), ((1, 1), "stage 1")]
)
def test_view_of_a_branch_is_not_ahead_of_the_log(told_of: tuple[int, int], words: str) -> None:
    done = {"node_path": "0.0", "node_run": 1, "provider": "p"}
    complete = [
        Event("iteration_complete", {**done, "iteration": 1}, {}, "", 200),
        Event("iteration_complete", {**done, "iteration": 2}, {}, "", 300),
        Event("iteration_complete", {**done, "node_path": "0.1", "iteration": 1}, {}, "", 400),
        Event("iteration_complete", {**done, "provider": "q", "iteration": 2}, {}, "", 100),
    ]
    view = {"current_stage": 1, "iteration_completed": told_of[1], "stages": [{"iterations": told_of[0]}]}
    path = f"{RUN}/parallel-00-duel/providers/p/state.json"
    written = engine("rename", path, source=f"{path}.tmp", text=json.dumps(view))
    synced = [*NEW_LOG, engine("write", LOG, size=400), engine("sync", LOG, size=200)]
    found = "\n".join(complaints([*synced, written], LOG, complete))
    assert (words in found) if words else found == ""
    assert complaints([*synced, engine("sync", LOG, size=400), written], LOG, complete) == []


@pytest.mark.parametrize(
    ("status", "synced", "words"),
    [
        ("open", 200, ""),
        ("open", 199, "more requests"),
        ("resolved", 300, ""),
        ("resolved", 299, "more answers"),
    ],
)
def test_requests_are_shown_when_they_are_synced(status: str, synced: int, words: str) -> None:
    asked = [Event("request_opened", AT, {}, "", 200), Event("request_answered", AT, {}, "", 300)]
    path = "/p/.agentforge/escalations/ESC-1.yaml"
    shown = engine("rename", path, source=f"{path}.tmp", text=f"escalation_id: ESC-1\nstatus: {status}\n")
    trace = [*NEW_LOG, engine("write", LOG, size=300), engine("sync", LOG, size=synced), shown]
    found = "\n".join(complaints(trace, LOG, asked))
    assert (words in found) if words else found == ""


WAL = RUN / "events.wal"
NEW_WAL = [
    engine("create", WAL, is_new=True),
    engine("overwrite", WAL, position=0, size=4096, begin=bytes(16).hex()),
    engine("sync", WAL, size=4096),
    engine("sync", RUN, size=0),
]


def record(position: int, size: int, at: int = 0) -> Call:
    begin = struct.pack("<QII", position, size, 7).hex()
    return engine("overwrite", WAL, position=at, size=size + 16, begin=begin)


BEFORE = [engine("write", LOG, size=100), engine("sync", LOG, size=100)]
COPIED = [engine("write", LOG, size=200), record(100, 100), engine("sync", WAL, size=4096)]


def test_intent_in_the_synced_write_ahead_file_counts() -> None:
    assert told([*NEW_LOG, *BEFORE, *NEW_WAL, *COPIED, STARTED[2]]) == ""
    for dropped in (*COPIED[1:], NEW_WAL[3]):
        trace = [call for call in (*NEW_LOG, *BEFORE, *NEW_WAL, *COPIED, STARTED[2]) if call is not dropped]
        assert "the intent of" in told(trace)


@pytest.mark.parametrize("act", [record(200, 100), engine("unlink", WAL)])
def test_write_ahead_file_is_needed_until_the_log_is_synced(act: Call) -> None:
    trace = [*NEW_LOG, *BEFORE, *NEW_WAL, *COPIED]
    assert "100 bytes of the log are synced, 200 are needed" in told([*trace, act])
    assert told([*trace, engine("sync", LOG, size=200), act]) == ""


def test_write_ahead_file_leaves_out_nothing() -> None:
    trace = [*NEW_LOG, *BEFORE, *NEW_WAL, *COPIED]
    assert told([*trace, record(200, 50, at=116)]) == ""
    assert "leaves out a part" in told([*trace, record(201, 50, at=116)])


ITERATION = str(Path(ATTEMPT).parent)
LARGE = f"{ITERATION}/artifact.json"
ACCEPTED = [
    engine("mkdir", ITERATION, is_new=True),
    engine("sync", f"{LARGE}.tmp", size=70_000),
    engine("rename", LARGE, source=f"{LARGE}.tmp", text=""),
    engine("sync", ITERATION, size=0),
    engine("sync", str(Path(ITERATION).parent), size=0),
]


@pytest.mark.parametrize(
    ("dropped", "words"),
    [(1, "its artifact"), (3, "its artifact"), (4, "the folder 001 of its artifact"), (None, "")],
)
def test_large_artifact_is_synced_before_the_event_that_names_it(dropped: int | None, words: str) -> None:
    artifact = {"file": str(Path(LARGE).relative_to(RUN)), "size": 70_000, "sha256": "0" * 64}
    done = Event("iteration_complete", AT, {"artifact": artifact}, "", 300)
    written = engine("write", LOG, size=300)
    kept = [call for number, call in enumerate(ACCEPTED) if number != dropped]
    found = "\n".join(complaints([*NEW_LOG, *STARTED, *kept, written], LOG, [*EVENTS[:2], done]))
    assert (words in found) if words else found == ""
    in_log = Event(done.type, AT, {"artifact": {**artifact, "value": {}}}, "", 300)
    assert complaints([*NEW_LOG, *STARTED, written], LOG, [*EVENTS[:2], in_log]) == []


MOVED = engine("rename", f"{RUN}.old", source=str(RUN), text="")


def test_only_the_run_that_has_the_name_now_is_judged() -> None:
    assert told([*without(STARTED[1]), MOVED, *GOOD]) == ""


@pytest.mark.parametrize(
    ("folder", "words"),
    [(RUN.parent, "folder pipeline-runs of the log"), (STATE, "folder agentforge of the")],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_name_of_a_folder_that_a_killed_process_made_is_synced(folder: object, words: str, when: str) -> None:
    made = [{**engine("mkdir", folder, is_new=True), "pid": 9}]
    before = [*made, MOVED] if when == "before" else [MOVED, *made]
    again = [call for call in GOOD if call not in (PROVED[0], PROVED[1])]
    assert words in told([*before, *again])
    assert told([*before, engine("sync", Path(folder).parent, size=0), *again]) == ""


HOOK = {"delivery": DELIVERY, "attempt": 1}
INTENDED = [
    Event("hook_start", AT, HOOK, "", 700),
    Event("effect_intended", AT, {"key": DELIVERY, "attempt": 1}, "", 800),
]
HEADERS = engine("send", text=f"POST / HTTP/1.1\r\nIdempotency-Key: {DELIVERY}\r\n\r\n")
BODY = engine("send", text=json.dumps({"hook": "h", **HOOK}))
SECOND_BODY = engine("send", text=json.dumps({"hook": "h", **HOOK, "attempt": 2}))
CALL = engine("hook", of=HOOK)
RUN_SCRIPT = engine("spawn", argv=["python", "supervisor.py", SCRIPT])


ACTS = {"headers": HEADERS, "body": BODY, "function": CALL, "script": RUN_SCRIPT}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_hook_is_called_after_its_intent_is_synced(act: Call) -> None:
    def told_of(synced: int) -> str:
        trace = [*NEW_LOG, engine("write", LOG, size=800), engine("sync", LOG, size=synced), act]
        return "\n".join(complaints(trace, LOG, [EVENTS[0], *INTENDED]))

    assert told_of(800) == ""
    assert "isn't synced" in told_of(600)
    assert "the intended effect" in told_of(700) or act not in (HEADERS, BODY)


def test_second_try_of_a_webhook_needs_an_intent_of_its_own() -> None:
    trace = [*NEW_LOG, engine("sync", LOG, size=800), SECOND_BODY]
    found = "\n".join(complaints(trace, LOG, [EVENTS[0], *INTENDED]))
    assert "the intended effect {'key': '0b1c', 'attempt': 2} isn't synced" in found
    assert "the intent to call its hook isn't synced" in found


def test_intent_of_an_earlier_visit_does_not_announce_a_later_one() -> None:
    later = ATTEMPT.replace("/iterations/", "/run-002/iterations/")
    trace = [{**call, "argv": ["python", later]} if call is STARTED[2] else call for call in GOOD]
    assert "the intent of ('attempt', '0~2', 1, 1) isn't synced" in told(trace)


def test_link_of_a_draft_that_a_starting_engine_removed_makes_nothing_visible() -> None:
    link = ASKED[2]
    lost = [engine("unlink", link["source"]), {**link, "text": ""}]
    assert told([*NEW_LOG, *STARTED, *CLAIMED, *ASKED[:2], *lost, *ASKED]) == ""
    assert "visible before its content" in told([*NEW_LOG, *STARTED, *CLAIMED, *ASKED[:1], lost[1]])

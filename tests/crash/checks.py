"""What must hold after any crash, judged without the product's own code: from the log's bytes, the agents'
ledger, the files and the process table."""

import fcntl
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from tests.order.rules import CONTROLS, complaints, read_trace

from agentforge.adapters.log.jsonl_log import verify

from . import killer, victims
from .hook_checks import OF_HOOKS, course, hook_violations
from .scenarios import CAP, COST, FIGURE, SESSION
from .story import FINAL, Story, is_caused_by_a_kill

ONCE = ("session_start", "session_complete", "session_aborted")
ONCE_IN_A_NODE = (
    "node_start",
    "node_complete",
    "node_restart",
    "parallel_provider_start",
    "parallel_provider_complete",
    "stage_complete",
    "manifest_written",
)
OUTCOMES = ("iteration_complete", "error", "attempt_lost", "attempt_cancelled")
OF_CHECKS = ("check_complete", "check_lost")
OF_THE_JUDGE = ("judge_complete", "judge_lost")
FILES = (
    *("output.md", "result.json", "status.json", "context.json", "prompt.md", "judge.json"),
    *("artifact.json", "input.json", "briefing.md"),
)
NOT_TRACKED = (
    ":!.agentforge",
    ":!.claude/pipeline-runs",
    ":!.claude/locks",
    ":!.claude/loop-completions.json",
)
REQUEST_ID = re.compile(r"REQ-\d{8}T\d{6}Z-[0-9a-f]{8}")
CHECK_SECONDS = re.compile(r"^(check \S+ \w+) in [\d.]+s", re.MULTILINE)
QUOTE_HASH = re.compile(r"^(----- .*) [0-9a-f]{12} -----$", re.MULTILINE)
DEATH_SECONDS = 20.0
EVER = "1970-01-01T00:00:00Z"


def violations(story: Story, expected: dict) -> list[str]:
    """Everything that is wrong; `expected` is the uninterrupted run's `final_state`."""
    found = list(story.trouble)
    log = (_chain, _verify, _nothing_lost, _once, _closed, _numbers, _order)
    checks = (*log, _attempts, _ledger, _sessions, _rest, _strays)
    checks += (hook_violations,) if story.scenario.hooks else ()
    checks += (_daily_ledger,) if "daily_usd" in story.scenario.settings else ()
    checks += (_below_cap,) if "cost_usd" in story.scenario.settings else ()
    checks += ((_recorded,) if story.scenario.record else ()) + ((_trees,) if story.scenario.tracked else ())
    for check in checks:
        try:
            found += check(story)
        except (ValueError, KeyError, OSError) as error:
            found.append(f"{check.__name__}: {error!r}")
    if not found and not _was_silenced(story):
        now = final_state(story)
        found += [
            f"{key}: {now.get(key)!r} instead of {expected.get(key)!r}"
            for key in sorted({*now, *expected})
            if now.get(key) != expected.get(key)
        ]
    return found


def _chain(story: Story) -> Iterator[str]:
    """Each line is an event, numbered, and chained to the one before."""
    content = story.log.read_bytes()
    if not content.endswith(b"\n"):
        yield "the log ends in a torn line"
    previous, latest = "0" * 32, datetime.min.replace(tzinfo=UTC)
    for number, line in enumerate(content.splitlines(), 1):
        event = json.loads(line)
        body, _, claimed = line.rpartition(b',"hash":"')
        previous = sha256(previous.encode() + body).hexdigest()[:32]
        if claimed != f'{previous}"}}'.encode():
            yield f"line {number} breaks the chain"
        if event["seq"] != number:
            yield f"line {number} has seq {event['seq']}"
        # Not as texts: a whole second has no fraction.
        at = datetime.fromisoformat(event["timestamp"])
        if at < latest:
            yield f"line {number} is older than the one before"
        latest = at


def _verify(story: Story) -> Iterator[str]:
    """`log verify` finds the same as these checks."""
    report = verify(story.log)
    if not report.is_intact or report.torn or report.events != len(story.events()):
        yield f"log verify reports {report}"


def _nothing_lost(story: Story) -> Iterator[str]:
    """The events that an engine had written when it died are unchanged; a torn line is archived."""
    now = story.log.read_bytes()
    for number, then in enumerate(story.logs, 1):
        whole = then[: then.rfind(b"\n") + 1]
        torn = then[len(whole) :]
        if not now.startswith(whole):
            yield f"turn {number}: events that were in the log are gone"
        if torn and not now.startswith(then):
            archived = story.log.with_name(f"events.jsonl.torn-{len(whole)}")
            if not archived.exists() or archived.read_bytes() != torn:
                yield f"turn {number}: a torn line of {len(torn)} bytes wasn't archived"


def _once(story: Story) -> Iterator[str]:
    """Nothing is recorded twice."""
    seen: Counter[tuple[object, ...]] = Counter()
    for event in story.events():
        kind, at, data = event["type"], event["cursor"] or {}, event["data"]
        place = (_node(at), at.get("node_run"), at.get("iteration"))
        if kind in ONCE:
            seen[kind,] += 1
        elif kind in ONCE_IN_A_NODE:
            # A provider that failed may continue when a person resumes the run.
            seen[kind, place[0]] += data.get("status") != "failed"
        elif kind in OF_THE_JUDGE and data.get("status") != "skipped":
            seen["judge's outcome", *place, data.get("attempt", 1)] += 1
            seen["heard", *place] += data.get("status") == "success"
        elif kind in ("check_start", *OF_CHECKS):
            what = kind if kind == "check_start" else "outcome of a check"
            seen[what, *place, data.get("baseline") or data["check"], data["attempt"]] += 1
        elif kind in ("stage_verdict", "stage_transition"):
            seen[kind, *place] += 1
        elif kind == "judge_start":
            seen[kind, *place, data.get("attempt", 1)] += 1
        elif kind in ("iteration_start", "iteration_complete"):
            seen[kind, *place] += 1
        elif kind == "attempt_start":
            seen[kind, *place, data["attempt"]] += 1
        elif kind in OUTCOMES:
            seen["outcome", *place, data["attempt"]] += 1
        elif kind in ("request_opened", "request_answered", "request_resolved"):
            seen[kind, data["id"]] += 1
        elif kind == "checkpoint_cleared":
            seen[kind, data["name"]] += 1
        elif kind in CONTROLS and data.get("control"):
            seen["control", data["control"]] += 1
    yield from (f"recorded {count} times: {what}" for what, count in seen.items() if count > 1)


def _closed(story: Story) -> Iterator[str]:
    """No request is open at the end of a run."""
    events = story.events()
    ids = {kind: {event["data"]["id"] for event in events if event["type"] == kind} for kind in _REQUESTS}
    is_over = any(event["type"] in ("session_complete", "session_aborted") for event in events)
    for id in ids["request_opened"] - ids["request_resolved"] if is_over else ():
        yield f"request {id} is open at the end of the run"


_REQUESTS = ("request_opened", "request_resolved")


def _numbers(story: Story) -> Iterator[str]:
    """Iterations are numbered 1, 2, 3 … within their node, and so are attempts within their iteration."""
    done: dict[str, int] = {}
    attempts: dict[tuple[str, int], int] = {}
    for event in story.events():
        kind, at = event["type"], event["cursor"] or {}
        if kind in ("iteration_start", "iteration_complete"):
            last = done.get(_node(at), 0)
            if at["iteration"] != last + 1:
                yield f"event {event['seq']}: {kind} {at['iteration']} after {last}"
            if kind == "iteration_complete":
                done[_node(at)] = at["iteration"]
        if kind == "attempt_start":
            place, number = (_node(at), at["iteration"]), event["data"]["attempt"]
            if number != attempts.get(place, 0) + 1:
                yield f"event {event['seq']}: attempt {number} after {attempts.get(place, 0)}"
            attempts[place] = number


def _attempts(story: Story) -> Iterator[str]:
    """attempts.jsonl lists every attempt that has an outcome; an iteration that succeeded at once has no
    such file."""
    told: dict[Path, list[int]] = {}
    at_once: set[Path] = set()
    for event in story.events():
        if event["type"] in OUTCOMES and event["data"]["attempt"]:
            at = event["cursor"]
            file = _stage_folder(story, at) / "iterations" / f"{at['iteration']:03d}" / "attempts.jsonl"
            told.setdefault(file, []).append(event["data"]["attempt"])
            if event["type"] == "iteration_complete" and told[file] == [1]:
                at_once.add(file)
    for file, numbers in told.items():
        if file in at_once:
            if file.exists():
                yield f"{file.parent.name} succeeded at once, and yet it has an attempts.jsonl"
            continue
        written = [json.loads(line)["attempt"] for line in file.read_text().splitlines()]
        if written != numbers:
            yield f"{file.parent.name}/attempts.jsonl lists attempts {written} instead of {numbers}"


def _ledger(story: Story) -> Iterator[str]:
    """An attempt runs at most once, one that survives counts, and none runs that counts as never started."""
    notes = Counter((note["attempt"], note["what"]) for note in story.notes())
    disturbed = {attempt for role, attempt in story.killed if role in ("supervisor", "agent")}
    outcomes: dict[str, dict] = {}
    for event in story.events():
        if event["type"] in OUTCOMES and event["data"]["attempt"]:
            at = event["cursor"]
            outcomes[f"{_node(at)}/{at['iteration']}/{event['data']['attempt']}"] = event
        if event["type"] in OF_THE_JUDGE and event["data"].get("status") != "skipped":
            at = event["cursor"]
            outcomes[f"{_node(at)}/{at['iteration']}/judge/{event['data'].get('attempt', 1)}"] = event
        is_rule = event["type"] == "check_complete" and not event["data"].get("output")
        if event["type"] in OF_CHECKS and not is_rule:  # A rule runs nothing.
            at, data = event["cursor"], event["data"]
            about = data.get("baseline") or data["check"]
            outcomes[f"{_node(at)}/{at['iteration']}/check/{about}/{data['attempt']}"] = event
    for (attempt, what), count in notes.items():
        if count > 1:
            yield f"attempt {attempt}: {what} {count} times"
    for attempt, event in outcomes.items():
        ran, ended = notes[attempt, "start"], notes[attempt, "end"]
        kind = event["type"]
        if kind == "iteration_complete" and not (ran and ended):
            yield f"attempt {attempt} counts as complete and didn't run to its end"
        if kind == "attempt_lost" and not event["data"].get("started") and ran:
            yield f"attempt {attempt} counts as never started and ran"
        if kind == "attempt_lost" and ran and attempt not in disturbed:
            yield f"attempt {attempt} survived and counts as lost: {event['data']['reason']}"
        failed = any(notes[attempt, why] for why in ("crash", "limit", "invalid"))
        if kind == "error" and attempt not in disturbed and not failed:
            yield f"attempt {attempt} was left alone and counts as failed: {event['data']['message']}"
        if kind == "attempt_cancelled" and story.scenario.control is None:
            yield f"attempt {attempt} counts as cancelled without a request"
        if kind == "check_complete" and not (ran and ended) and attempt not in disturbed:
            yield f"check {attempt} has an outcome and didn't run to its end"
        if kind == "check_lost" and ran and attempt not in disturbed:
            yield f"check {attempt} survived and counts as lost"
        if kind in OF_THE_JUDGE:
            yield from _of_the_judge(
                story, attempt, event, ran=ran, ended=ended, left_alone=attempt not in disturbed
            )
    for attempt in {attempt for attempt, _ in notes} - outcomes.keys():
        if not attempt.startswith(OF_HOOKS):
            yield f"attempt {attempt} ran and has no outcome"


def _sessions(story: Story) -> Iterator[str]:
    """An attempt resumes the agent session of the last one at its place with the same provider, its agent
    gets the session's id, and limits that are waited for are over by then."""
    told = {note["attempt"]: note.get("goes_on_with") for note in story.notes() if note["what"] == "start"}
    left: dict[str, tuple[str | None, int]] = {}
    due: dict[str, str] = {}
    for event in story.events():
        kind, at, data = event["type"], event["cursor"] or {}, event["data"]
        place = f"{_node(at)}/{at.get('iteration')}"
        if kind == "limit_met":
            due[place] = data["due_at"]
        if kind == "session_resumed" or data.get("by") == "person":
            due.clear()
        if kind == "attempt_start":
            name, choice, resume = f"{place}/{data['attempt']}", data.get("choice", 0), data.get("resume")
            if resume and (resume, choice) != left.get(place):
                yield f"attempt {name} resumes {resume} of provider {choice} instead of {left.get(place)}"
            if name in told and told[name] != (resume or ""):
                yield f"the agent of attempt {name} got {told[name]!r} instead of {resume!r}"
            if datetime.fromisoformat(event["timestamp"]) < datetime.fromisoformat(due.get(place, EVER)):
                yield f"attempt {name} started before {due[place]}"
            left[place] = (resume, choice)
        if kind in OUTCOMES and (kind != "attempt_lost" or data.get("started")):
            session, choice = left.get(place, (None, 0))
            # An agent that was killed before any output keeps its session.
            silent = session if kind in ("attempt_lost", "attempt_cancelled") else None
            left[place] = (data.get("agent_session") or silent, choice)


def _of_the_judge(
    story: Story, attempt: str, event: dict, *, ran: int, ended: int, left_alone: bool
) -> Iterator[str]:
    """The verdict of a judge that survives counts, and the judge isn't asked again."""
    status = event["data"].get("status", "lost")
    if status == "success" and not (ran and ended):
        yield f"judge {attempt} has a verdict but didn't finish"
    if status == "failed" and left_alone:
        yield f"judge {attempt} was left alone and counts as failed"
    if status == "lost" and ran and left_alone and story.scenario.control is None:
        yield f"judge {attempt} survived and counts as lost"


def _was_silenced(story: Story) -> bool:
    """Whether a judge was killed in both of its attempts at an iteration: then the stage continues without a
    verdict, and the run rightly ends differently. (That each of them was killed is checked above.)"""
    failed = Counter(
        (_node(event["cursor"]), event["cursor"]["iteration"])
        for event in story.events()
        if event["type"] == "judge_complete" and event["data"]["status"] == "failed"
    )
    return any(count > 1 for count in failed.values())


def _node(at: dict) -> str:
    """A node's path, in a branch with its provider, from the second visit on with its number."""
    node = f"{at['node_path']}@{at['provider']}" if at.get("provider") else at.get("node_path", "")
    return killer.visited(node, at.get("node_run", 1))


def _stage_folder(story: Story, at: dict) -> Path:
    node, _, stage = at["node_path"].partition(".")
    if not at.get("provider"):
        folder = next(story.run_dir.glob(f"stage-{int(node):02d}-*"))
        return folder / f"run-{at['node_run']:03d}" if at["node_run"] > 1 else folder
    return next(
        story.run_dir.glob(f"parallel-{int(node):02d}-*/providers/{at['provider']}/stage-{int(stage):02d}-*")
    )


def _rest(story: Story) -> Iterator[str]:
    """No process is running, the lease is free, the lock file is removed."""
    until = time.monotonic() + DEATH_SECONDS
    while (left := victims.processes(story.run)) and time.monotonic() < until:
        time.sleep(0.02)
    if left:
        yield f"left running: {sorted(left.values())}"
        victims.kill_processes(story.run, list(victims.ROLES), os.devnull)
    if story.status() not in FINAL:
        yield f"ended {story.status()}"
    descriptor = os.open(story.log, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield "the lease is held"
    finally:
        os.close(descriptor)
    if (story.project / ".claude" / "locks" / f"{SESSION}.lock").exists():
        yield "the lock file still exists"


def _strays(story: Story) -> Iterator[str]:
    """No half-written file is left over. A folder with an empty log was moved aside and is kept."""
    logs = story.run_dir.parent.glob(f"{SESSION}.*/{story.log.name}")
    aside = [log.parent for log in logs if not log.stat().st_size]
    for path in story.project.rglob("*"):
        if any(path.is_relative_to(folder) for folder in aside):
            continue
        is_supervised = path.parent.name.startswith(("attempt-", "judge-")) or path.parts[-3] == "checks"
        if path.suffix in (".tmp", ".draft") and not is_supervised:
            yield f"left over: {path.relative_to(story.project)}"


def _order(story: Story) -> Iterator[str]:
    """What was done in the wrong order, by the system calls that were recorded."""
    if story.log.exists() and story.trace.exists():
        yield from complaints(read_trace(story.trace), story.log)


def _recorded(story: Story) -> Iterator[str]:
    """Every attempt and judge with an outcome is recorded once, and none that was lost; and the recorded
    files, played in order, are those in the workspace."""
    content = (story.run_dir / "cassette.jsonl").read_bytes()
    if not content.endswith(b"\n"):
        yield "the cassette ends in a torn line"
    header, *exchanges = [json.loads(line) for line in content.splitlines()]
    if header["session"] != SESSION:
        yield f"the cassette's header is {header}"
    kept = Counter((e["kind"], e["stage"], e["iteration"], e.get("made", e["attempt"])) for e in exchanges)
    names = {str(index): node["id"] for index, node in enumerate(header["plan"]["nodes"])}
    told: Counter[tuple[object, ...]] = Counter()
    for event in story.events():
        at, data = event["cursor"] or {}, event["data"]
        if event["type"] in ("iteration_complete", "error"):
            told["work", names[at["node_path"]], at["iteration"], data["attempt"]] += 1
        elif event["type"] == "judge_complete":
            told["judge", names[at["node_path"]], at["iteration"], data.get("attempt", 1)] += 1
    if kept != told:
        yield f"recorded too many: {kept - told}, missing: {told - kept}"
    yield from _played(story, exchanges)


def _trees(story: Story) -> Iterator[str]:
    """Every attempt that ran has a tree, whose objects are kept; the last is what git itself makes of the
    files."""
    ran = (event["data"] for event in story.events() if event["type"] in OUTCOMES)
    trees = [data.get("tree") for data in ran if data.get("started", True)]
    if None in trees:
        yield f"an attempt without a tree: {trees}"
    index, objects = f"{story.project.parent}/index", f"{story.run_dir}/trees"
    env = {**os.environ, "GIT_INDEX_FILE": index, "GIT_OBJECT_DIRECTORY": objects}
    for words in (("add", "-A", "--", ".", *NOT_TRACKED), ("write-tree",)):
        git = subprocess.run(["git", *words], cwd=story.project, env=env, capture_output=True, check=True)
    if git.stdout.decode().strip() != trees[-1]:
        yield f"the last tree is {trees[-1]}, but git makes {git.stdout!r}"
    for tree in trees:
        shown = ["git", "ls-tree", "-r", str(tree)]
        if subprocess.run(shown, cwd=story.project, env=env, capture_output=True, check=False).returncode:
            yield f"the tree {tree} can't be read"


def _daily_ledger(story: Story) -> Iterator[str]:
    """It has the sum of what ran, and nothing is reserved any more. No agent here says what it cost."""
    head, *lines = (story.base / "state/agentforge/daily/ledger.jsonl").read_text().splitlines()
    spent, reserved = json.loads(head)["spent"], dict[tuple[str, str], float]()
    for line in map(json.loads, lines):
        key = line["run"], line["key"]
        before = reserved.pop(key, None)
        if line["type"] == "reserve":
            reserved[key] = line["usd"]
        elif before is not None:
            spent += line["usd"]
    if reserved:
        yield f"still reserved: {reserved}"
    ended = [event for event in story.events() if event["type"] in (*OUTCOMES, *OF_THE_JUDGE)]
    ran = sum(event["data"].get("started", True) for event in ended)
    if round(spent, 9) != FIGURE * ran:
        yield f"{spent} spent by {ran} tasks"


def _below_cap(story: Story) -> Iterator[str]:
    """By adding up the log, what agents have spent and may spend fits below the cap at each start; and the
    log has at least what is in the agents' own ledger."""
    limit, spent, held = CAP, 0.0, dict[tuple[object, ...], float]()
    for event in story.events():
        kind, at, data = event["type"], event["cursor"] or {}, event["data"]
        is_judge = kind == "judge_start" or kind in OF_THE_JUDGE
        key = (_node(at), at.get("iteration"), data.get("attempt", 1), is_judge)
        if kind in ("attempt_start", "judge_start"):
            held[key] = data["reserves"]["cost_usd"]
            if round(spent + sum(held.values()), 9) > limit:
                yield f"event {event['seq']}: {spent} spent and {held} reserved of {limit}"
        elif key in held and kind in (*OUTCOMES, *OF_THE_JUDGE):
            reserved = held.pop(key) * data.get("started", True)
            spent = round(spent + data.get("usage", {}).get("cost_usd", reserved), 9)
        elif kind == "request_resolved" and data["effect"] == "granted":
            limit = round(limit + data["granted"], 9)
        elif kind == "plan_changed" and data.get("caps_set"):
            limit = data["plan"]["pipeline"]["limits"]["cost_usd"]
    paid = COST * sum(note["what"] == "paid" for note in story.notes())
    if held or paid > spent:
        yield f"agents have spent {paid:.2f}, the log has {spent}, and {held} is reserved"


def _played(story: Story, exchanges: list[dict]) -> Iterator[str]:
    files: dict[str, str] = {}
    for step in (step for exchange in exchanges for step in exchange["steps"]):
        if step["do"] == "write":
            files[step["path"]] = step["text"]
        elif step["do"] == "delete":
            files.pop(step["path"], None)
    there = {f"made/{path.name}": path.read_text() for path in (story.project / "made").glob("*")}
    played = {name: text for name, text in files.items() if name.startswith("made/")}
    if played != there:
        yield f"played, the files are {played} instead of {there}"


def final_state(story: Story) -> dict:
    """Where a run ended, in terms that no crash may change."""
    events, state = story.events(), json.loads((story.run_dir / "state.json").read_text())
    found: dict = {
        "status": story.status(),
        "completed": [
            (
                _node(e["cursor"]),
                e["cursor"]["iteration"],
                e["data"]["decision"],
                e["data"]["result"]["summary"],
            )
            for e in events
            if e["type"] == "iteration_complete"
        ],
        "nodes": [
            (e["data"]["name"], e["data"]["iterations"], e["data"]["reason"])
            for e in events
            if e["type"] == "node_complete"
        ],
        "state.json": {
            key: state[key] for key in ("status", "iteration_completed", "current_stage", "error")
        },
        "state.json stages": [(s["name"], s["iterations"], s["status"]) for s in state["stages"]],
        "state.json history": [
            (h["iteration"], h["stage"], h["decision"], h["summary"]) for h in state["history"]
        ],
        "state.json is of the last event": state["event_offset"] == events[-1]["seq"],
        "judged": [
            (_node(e["cursor"]), e["cursor"]["iteration"], e["data"]["result"])
            for e in events
            if e["type"] == "judge_complete" and e["data"]["status"] == "success"
        ],
    }
    found["asked"] = _asked(events)
    found["verdicts"] = [
        (e["type"], _node(e["cursor"]), e["data"]["verdict"], e["data"].get("cycle"))
        for e in events
        if e["type"] in ("stage_verdict", "stage_transition")
    ]
    found["items"] = [
        (e["type"], _node(e["cursor"]), e["data"])
        for e in events
        if e["type"] in ("items_planned", "item_ended")
    ]
    found["hooks"] = course(events)
    found["visits"] = [
        (event["type"], _node(event["cursor"]), event["data"].get("cause"), event["data"].get("feedback"))
        for event in events
        if event["type"] in ("node_start", "node_restart")
    ]
    if any((event["cursor"] or {}).get("provider") for event in events):
        # Who of several comes first is a matter of luck.
        found |= {key: sorted(found[key]) for key in ("completed", "state.json history")}
        found["hooks"].sort(key=repr)
    if story.status() == "completed":
        completed = {
            _stage_folder(story, e["cursor"]) / "iterations" / f"{e['cursor']['iteration']:03d}"
            for e in events
            if e["type"] == "iteration_complete"
        }
        for path in sorted(story.run_dir.glob("**/stage-*/**/iterations/*/*")):
            # An iteration that a restart ended keeps the output of its agent only if that had died before.
            if path.name in FILES and (path.name != "output.md" or path.parent in completed):
                found[str(path.relative_to(story.run_dir))] = _text(path, story)
        completions = story.project / ".claude" / "loop-completions.json"
        if completions.exists():
            told = json.loads(completions.read_text())
            found[completions.name] = [(one["session"], one["type"], one["status"]) for one in told]
        for path in [*story.run_dir.rglob("progress*.md"), *(story.project / "docs").glob("*")]:
            found[str(path.relative_to(story.project))] = _text(path, story)
        for path in [*story.run_dir.rglob("manifest.json"), *story.run_dir.glob("*/providers/*/state.json")]:
            told = json.loads(_text(path, story))
            timeless = {
                key: value for key, value in told.items() if key not in ("completed_at", "started_at")
            }
            found[str(path.relative_to(story.project))] = timeless
    return found


def _asked(events: list[dict]) -> list[list[object]]:
    """What people decided, and what followed; what is asked only because of kills is left out."""
    told: dict[str, list[object]] = {}
    for event in events:
        data = event["data"]
        if event["type"] == "request_opened" and not is_caused_by_a_kill(data):
            told[data["id"]] = [data["kind"], data["question"]]
        elif event["type"] == "request_answered" and data["id"] in told:
            told[data["id"]] += [data["answer"], data["by"], data.get("text", "")]
        elif event["type"] == "request_resolved" and data["id"] in told:
            told[data["id"]].append(data["effect"])
    return list(told.values())


def _text(path: Path, story: Story) -> str:
    """Without what depends on the request, the folder, or how long a check took."""
    text = REQUEST_ID.sub("REQUEST_ID", path.read_text().replace(str(story.project), "PROJECT"))
    return QUOTE_HASH.sub(r"\1", CHECK_SECONDS.sub(r"\1", text))

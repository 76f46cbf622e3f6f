"""What the agent of the crash runs does: it notes in a ledger that it ran, works a moment, writes its result.

What it leaves depends on the stage and the iteration alone, so that any run can be held against the
uninterrupted one.
"""

import fcntl
import os
import sys
import time

if "AGENT_TOOL" in os.environ:  # It takes long to import.
    import subprocess

import killer
from plain_json import text_of

EXIT_OF_THE_CRASH = 7
MAX_WAIT = 60.0
REATTACHED = b'"type":"attempt_reattached"'
UNSAID = 3.0
"""Seconds that a new engine has to find a running agent, where it doesn't say so: a judge or a script."""
LARGE = 70_000
"""Bytes that an artifact needs to be too large for the log."""
VOIDS = 3
LIMITS = 2
"""So often a limit is met at a place: by each of two providers."""


def note(what: str) -> None:
    """One line, in one write, at the end of the ledger."""
    noted = {"what": what, "attempt": ATTEMPT, "pid": os.getpid(), "goes_on_with": GOES_ON_WITH}
    line = text_of(noted).encode() + b"\n"
    INJECTOR.around("note", lambda: write(LEDGER, line))


def say(text: str, **more: str | float) -> None:
    if "--json" in sys.argv:
        conversation = GOES_ON_WITH or f"of-{ATTEMPT.replace('/', '-')}"
        text = text_of({"text": text, "conversation": conversation, **more})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def times_before(what: str) -> int:
    """The number of calls at this place."""
    import json

    with open(os.environ["CRASH_LEDGER"], encoding="utf-8") as ledger:
        lines = [json.loads(line) for line in ledger]
    return sum(line["what"] == what and line["attempt"].startswith(PLACE + "/") for line in lines)


def start_tool() -> None:
    """In a separate session, so that only the supervisor or the mark can find it."""
    subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)


def wait_for_an_engine() -> None:
    """Keep working until an engine drives the run, so that agents of killed engines keep running."""
    log = os.open(os.environ["CRASH_LOG"], os.O_RDONLY)
    until, alone, known = time.monotonic() + MAX_WAIT, owner() != FIRST_OWNER, reattached()
    found = None
    while time.monotonic() < until:
        try:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # A new engine reads the log first; we have to be running after that.
            found = found or time.monotonic()
            alone = alone or owner() != FIRST_OWNER
            if not alone or reattached() > known or time.monotonic() > found + UNSAID:
                return
        else:
            alone, found = True, None
            fcntl.flock(log, fcntl.LOCK_UN)
        time.sleep(0.03)


def owner() -> str:
    """The process that holds the lock on the log; empty if none does. The next engine may start so soon that
    the log is never seen without an owner."""
    inode = str(os.stat(os.environ["CRASH_LOG"]).st_ino)
    with open("/proc/locks", encoding="utf-8") as locks:
        held = (line.split() for line in locks if " FLOCK " in line and "->" not in line)
        return next((words[4] for words in held if words[5].rpartition(":")[2] == inode), "")


def reattached() -> int:
    """How often an engine said that it found a running agent."""
    return logged(REATTACHED)


def logged(words: bytes) -> int:
    """How often they stand in the log."""
    with open(os.environ["CRASH_LOG"], "rb") as log:
        return log.read().count(words)


def wait_for_events() -> None:
    """Keep working until the log has the events that are expected at this place: `0/1:note_added`; or until a
    file exists: `0/1:/path`."""
    words = (word.partition(":") for word in os.environ.get("AGENT_UNTIL", "").split())
    awaited = [what for place, _, what in words if place == PLACE]
    until = time.monotonic() + MAX_WAIT
    while awaited and time.monotonic() < until:
        with open(os.environ["CRASH_LOG"], "rb") as log:
            content = log.read()
        if all(
            os.path.exists(what) if what.startswith("/") else f'"type":"{what}"'.encode() in content
            for what in awaited
        ):
            return
        time.sleep(0.03)


def fill_the_disk() -> None:
    """Until there is only so much room left, if that is asked for."""
    if not wanted("AGENT_FILLS"):
        return
    ballast = os.open(os.environ["AGENT_BALLAST"], os.O_WRONLY | os.O_CREAT)
    disk = os.fstatvfs(ballast)
    os.posix_fallocate(ballast, 0, disk.f_bavail * disk.f_frsize - int(os.environ["AGENT_LEAVES"]))


def wanted(name: str) -> bool:
    """A variable names the iterations that it concerns: `0/1 1/2`."""
    return PLACE in os.environ.get(name, "").split()


def pay() -> None:
    """Spend what an agent costs. What is noted here is spent, whatever becomes of it."""
    if "AGENT_COSTS" in os.environ:
        note("paid")


def write_result() -> None:
    summary = f"did {PLACE}"
    result = {"summary": summary, "work": {"items_completed": [PLACE]}, "decision": "continue"}
    if wanted("AGENT_ASKS"):
        asked = {"id": "color", "question": "Which color?", "options": ["red", "blue"]}
        result |= {"decision": "ask", "questions": [asked]}
    if wanted("AGENT_REJECTS"):
        result |= {"verdict": "fail", "reason": f"{PLACE} is not as wanted"}
    place = os.environ["AGENTFORGE_STATUS" if wanted("AGENT_OLD_STATUS") else "AGENTFORGE_RESULT"]
    if wanted("AGENT_OLD_STATUS"):
        result = {"decision": "continue", "reason": "more to do", "summary": summary}
    with open(place, "w", encoding="utf-8") as file:
        file.write(text_of(result))


def write_artifact() -> None:
    """As the scenario says for this place. `AGENT_INVALID`: the first agent there leaves half of it."""
    if "AGENTFORGE_ARTIFACT" not in os.environ:
        return
    import json

    given = json.loads(os.environ.get("AGENT_ARTIFACTS", "{}"))
    content = text_of(given.get(PLACE, {"done": PLACE}))
    if wanted("AGENT_LARGE"):
        content = content.replace("{", '{"notes": "' + "x" * LARGE + '", ', 1)
    if wanted("AGENT_INVALID") and not times_before("invalid"):
        content = content[: len(content) // 2]
        note("invalid")
    with open(os.environ["AGENTFORGE_ARTIFACT"], "w", encoding="utf-8") as file:
        file.write(content)


def change_files(stage: str) -> None:
    """One separate file, and one that all agents share."""
    os.makedirs("made", exist_ok=True)
    for name in (PLACE.replace("/", "-"), "shared"):
        with open(f"made/{name}.txt", "w", encoding="utf-8") as file:
            file.write(f"{stage} {PLACE}\n")


def plant_next_attempt() -> None:
    """As if the next attempt had already been claimed and ended."""
    here = os.path.dirname(os.environ["AGENTFORGE_RESULT"])
    folder = os.path.join(here, f"attempt-{int(attempt) + 1}")
    os.mkdir(folder)
    for name in ("claim", "exit.json", "output.log"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("planted")


def work() -> None:
    say(f"working on {PLACE}")
    if wanted("AGENT_FILES"):
        change_files("begun")
    take_time()
    if wanted("AGENT_LIMITS") and times_before("limit") < LIMITS:
        note("limit")
        say("", error="usage limit reached")
        os._exit(1)
    if wanted("AGENT_CRASHES") and not times_before("crash"):
        if wanted("AGENT_PLANTS"):
            plant_next_attempt()
        note("crash")
        os._exit(EXIT_OF_THE_CRASH)
    if wanted("AGENT_FILES"):
        change_files("done")
    write_artifact()
    write_result()
    pay()
    note("end")
    fill_the_disk()
    say(f"done with {PLACE}", state="done", **COSTS)


def give_judgment() -> None:
    """A judge only prints its verdict."""
    take_time()
    pay()
    note("end")
    say(text_of({"stop": wanted("AGENT_STOPS"), "reason": f"judged {PLACE}", "confidence": 0.5}))


def answer_the_hook() -> None:
    """What the script of a hook prints is added to the context."""
    take_time()
    note("end")
    say(f"looked at {PLACE}")


def verify() -> None:
    """A check fails or passes by its place. `AGENT_DISTURBS`: changes files for `VOIDS` outcomes."""
    take_time()
    if wanted("AGENT_DISTURBS") and (outcomes := logged(b'"type":"check_complete"')) < VOIDS:
        change_files(f"disturbed {outcomes}")
    note("end")
    fill_the_disk()
    say(f"checked {PLACE}")
    if wanted("AGENT_TALKS"):
        say("\n".join(["it fails"] * 1000))
    sys.stdout.flush()
    os._exit(1 if wanted("AGENT_FAILS") else 0)


def take_time() -> None:
    time.sleep(float(os.environ.get("AGENT_LONG" if wanted("AGENT_LINGERS") else "AGENT_SECONDS", "0.05")))
    if wanted("AGENT_WAITS"):
        wait_for_an_engine()
    wait_for_events()


# Opened before the injector is installed: half a line would corrupt the next one.
LEDGER = os.open(os.environ["CRASH_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
write = os.write
INJECTOR = killer.install("agent")
_, *marked = os.environ["AGENTFORGE_ATTEMPT"].rpartition("@")[0].split("/")
is_script = marked[0] == "hook"
if is_script:
    _, delivery, attempt = marked
    PLACE = f"{os.environ['AGENTFORGE_EVENT']}/{os.environ['AGENT_PIPELINES_ITERATION']}"
    ATTEMPT = f"hook/{delivery}/{attempt}"
else:
    node, visit, iteration, attempt, *judge = marked
    PLACE = "/".join((killer.visited(node, int(visit)), iteration, *judge))
    ATTEMPT = f"{PLACE}/{attempt}"
FIRST_OWNER = owner()
GOES_ON_WITH = sys.argv[sys.argv.index("--go-on-with") + 1] if "--go-on-with" in sys.argv else ""
"""The agent session that is resumed."""
COSTS = {"cost": float(os.environ["AGENT_COSTS"])} if "AGENT_COSTS" in os.environ else {}


def main() -> None:
    note("start")
    if wanted("AGENT_TOOL"):
        start_tool()
    if is_script:
        answer_the_hook()
    elif judge[:1] == ["check"]:
        verify()
    else:
        give_judgment() if judge else work()

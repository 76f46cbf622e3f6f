"""The agent's program on this machine: creates a sandbox, works in it, copies changes back, and ends it."""

import json
import os
import signal
import sys
from typing import Any, NoReturn

from remote_sandbox.service import KEY, REPORT, URL, Service, ServiceFailed
from remote_sandbox.workspace import RESULTS, Moved, bring_back, collect

FAILED = 70


class Ended(Exception):
    """A stop was requested."""


def main() -> NoReturn:
    match sys.argv[2:]:
        case ["work"]:
            sys.exit(work(json.load(sys.stdin)))
        case ["end", name, url]:
            sys.exit(end(name, url))
        case _:
            sys.exit("this program is started by the provider `remote`")


def work(task: dict[str, Any]) -> int:
    """Returns the agent's exit status, or that of our failure."""
    signal.signal(signal.SIGTERM, _stop)
    service = Service(os.environ[URL], os.environ[KEY])
    try:
        return _in_sandbox(service, task)
    except Ended:
        return 128 + signal.SIGTERM
    except ServiceFailed as error:
        _tell(f"{REPORT}{error.kind}: {error}")
        return FAILED
    finally:
        # Not interruptible from here on.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end(task["name"], os.environ[URL])


def end(name: str, url: str) -> int:
    try:
        Service(url, os.environ.get(KEY, "")).end(name)
    except ServiceFailed as error:
        _tell(f"sandbox {name} could not be ended: {error}; the service ends it by itself")
        return FAILED
    return 0


def _in_sandbox(service: Service, task: dict[str, Any]) -> int:
    name, workdir, results = task["name"], task["workdir"], task["results"]
    root = service.create(name, task["template"], task["ttl"])
    moved = Moved(workdir, results, root)
    service.upload(name, list(collect(workdir, results, task["exclude"], moved)))
    code = _run(service, task, moved, root)
    files, deleted = service.changes(name)
    for path in bring_back(workdir, results, files, deleted):
        _tell(f"{path} was changed in the sandbox, but isn't the agent's to change here")
    return code


def _run(service: Service, task: dict[str, Any], moved: Moved, root: str) -> int:
    for message in service.run(
        task["name"], task["argv"], _environment(task, moved, root), moved.text(task["prompt"])
    ):
        if "exit" in message:
            return int(message["exit"])
        sys.stdout.write(message["output"])
        sys.stdout.flush()
    raise ServiceFailed("provider_unreachable", "the sandbox service broke off while the agent worked")


def _environment(task: dict[str, Any], moved: Moved, root: str) -> dict[str, str]:
    """The engine's variables with the sandbox's paths, and the variables that the stage passes."""
    translated = {name: moved.text(value) for name, value in task["environment"].items()}
    passed = {name: os.environ[name] for name in task["pass_env"] if name in os.environ}
    results = {
        "AGENTFORGE_RESULT": f"{root}/{RESULTS}/result.json",
        "AGENTFORGE_STATUS": f"{root}/{RESULTS}/status.json",
        "AGENTFORGE_PROMPT": f"{root}/{RESULTS}/prompt.md",
        "AGENTFORGE_MODEL": task["model"],
    }
    return {**translated, **passed, **results}


def _stop(*_: object) -> NoReturn:
    raise Ended


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")

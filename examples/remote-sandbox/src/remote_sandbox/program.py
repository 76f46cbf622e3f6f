"""The local program: creates a sandbox, runs the agent in it, downloads the changes, deletes the sandbox."""

import json
import os
import signal
import sys
from typing import Any, NoReturn

from remote_sandbox.service import KEY, REPORT, URL, Service, ServiceFailed
from remote_sandbox.workspace import RESULTS, PathMap, collect, download

FAILED = 70


class Terminated(Exception):
    """SIGTERM was received."""


def main() -> NoReturn:
    match sys.argv[2:]:
        case ["work"]:
            sys.exit(work(json.load(sys.stdin)))
        case ["end", name, url]:
            sys.exit(delete(name, url))
        case _:
            sys.exit("this program must be started by the provider `remote`")


def work(task: dict[str, Any]) -> int:
    """Return the agent's exit status, or FAILED."""
    signal.signal(signal.SIGTERM, _stop)
    service = Service(os.environ[URL], os.environ[KEY])
    try:
        return _in_sandbox(service, task)
    except Terminated:
        return 128 + signal.SIGTERM
    except ServiceFailed as error:
        _report(f"{REPORT}{error.kind}: {error}")
        return FAILED
    finally:
        # The deletion must not be interrupted.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        delete(task["name"], os.environ[URL])


def delete(name: str, url: str) -> int:
    try:
        Service(url, os.environ.get(KEY, "")).delete(name)
    except ServiceFailed as error:
        _report(f"failed to delete sandbox {name}: {error}; the service deletes it after its ttl")
        return FAILED
    return 0


def _in_sandbox(service: Service, task: dict[str, Any]) -> int:
    name, workdir, results = task["name"], task["workdir"], task["results"]
    root = service.create(name, task["template"], task["ttl"])
    paths = PathMap(workdir, results, root)
    service.upload(name, list(collect(workdir, results, task["exclude"], paths)))
    code = _run(service, task, paths, root)
    files, deleted = service.changes(name)
    for path in download(workdir, results, files, deleted):
        _report(f"{path} was changed in the sandbox; the change is ignored because the path is protected")
    return code


def _run(service: Service, task: dict[str, Any], paths: PathMap, root: str) -> int:
    environment, prompt = _environment(task, paths, root), paths.translate(task["prompt"])
    for message in service.run(task["name"], task["argv"], environment, prompt):
        if "exit" in message:
            return int(message["exit"])
        sys.stdout.write(message["output"])
        sys.stdout.flush()
    raise ServiceFailed(
        "provider_unreachable", "the sandbox service disconnected while the agent was running"
    )


def _environment(task: dict[str, Any], paths: PathMap, root: str) -> dict[str, str]:
    """The engine's variables with paths of the sandbox, and the variables in `pass_env`."""
    translated = {name: paths.translate(value) for name, value in task["environment"].items()}
    passed = {name: os.environ[name] for name in task["pass_env"] if name in os.environ}
    results = {
        "AGENTFORGE_RESULT": f"{root}/{RESULTS}/result.json",
        "AGENTFORGE_STATUS": f"{root}/{RESULTS}/status.json",
        "AGENTFORGE_ARTIFACT": f"{root}/{RESULTS}/artifact.json",
        "AGENTFORGE_PROMPT": f"{root}/{RESULTS}/prompt.md",
        "AGENTFORGE_MODEL": task["model"],
    }
    return {**translated, **passed, **results}


def _stop(*_: object) -> NoReturn:
    raise Terminated


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")

"""The expected result of a scripted run, computed without the engine: a plain simulation of the rules.

It imports nothing of the product, on purpose.
"""

from dataclasses import dataclass, field

FAILURES = {
    "crash": "provider_crashed",
    "timeout": "provider_timeout",
    "missing": "result_missing",
    "invalid": "result_invalid",
    "agent_error": "agent_error",
}
LIMIT = "limit"
"""A rate limit: waited for, and no failure that counts."""
SUCCESSES = ("ok", "stop", "status")
JUDGMENTS = ("go", "stop", "junk", "down", "flaky")
"""Outcomes of a judge: a verdict, an unreadable answer, no answer, an answer at the second attempt."""
ONCE_MORE = ("provider_crashed", "result_missing")
AS_OFTEN_AS_ALLOWED = ("provider_timeout",)
JUDGE_IS_GIVEN_UP_AFTER = 3


@dataclass(frozen=True)
class Stage:
    """`acts[i][t]`: what the agent does in iteration i+1 after t failures and limits."""

    name: str
    acts: tuple[tuple[str, ...], ...]
    max_attempts: int = 2
    judge: tuple[str, ...] | None = None
    """What the judge does after each iteration, `go` from there on; without one, the stage isn't judged."""
    judged_from: int = 1
    consensus: int = 1

    def act(self, iteration: int, failures: int) -> str:
        script = self.acts[iteration - 1]
        return script[failures] if failures < len(script) else "ok"

    def judgment(self, iteration: int) -> str:
        assert self.judge is not None
        return self.judge[iteration - 1] if iteration <= len(self.judge) else "go"


@dataclass(frozen=True)
class Block:
    """Stages that several providers do at once; `branches` names each provider with its own acts."""

    name: str
    branches: tuple[tuple[str, tuple[Stage, ...]], ...]


Node = Stage | Block
Spot = tuple[str, int]
"""A place, `stage` or `block/provider/stage`, and an iteration."""


@dataclass
class Expected:
    status: str = "completed"
    error: str | None = None
    finished: list[tuple[str, int]] = field(default_factory=list)
    """Nodes that are done, with their iterations."""
    unfinished: tuple[str, int] | None = None
    """The node that failed, with the iterations that it completed."""
    broken: set[str] = field(default_factory=set)
    """Places where an iteration failed for good."""
    results: dict[Spot, tuple[str, str]] = field(default_factory=dict)
    """Summary and decision."""
    judged: dict[Spot, str] = field(default_factory=dict)
    """`stop`, `go`, `failed` or `skipped`."""
    charged: int = 0
    """Failures and limits."""


def summary_of(place: str, iteration: int, failures: int) -> str:
    return f"{place} {iteration} after {failures}"


def expected(nodes: tuple[Node, ...]) -> Expected:
    end = Expected()
    for node in nodes:
        if isinstance(node, Stage):
            completed, error = _stage(end, node, node.name)
        else:
            completed, error = _block(end, node)
        if error is not None:
            end.status, end.error, end.unfinished = "failed", error, (node.name, completed)
            return end
        end.finished.append((node.name, completed))
    return end


def _block(end: Expected, block: Block) -> tuple[int, str | None]:
    """Every provider goes as far as it can, whatever becomes of the others."""
    total, failed = 0, False
    for provider, stages in block.branches:
        for stage in stages:
            completed, error = _stage(end, stage, f"{block.name}/{provider}/{stage.name}")
            total += completed
            if error is not None:
                failed = True
                break
    return total, "parallel_block_failed" if failed else None


def _stage(end: Expected, stage: Stage, place: str) -> tuple[int, str | None]:
    """How many iterations it completes, and the error that ends it, if one does."""
    judge = _Judge(stage)
    for iteration in range(1, len(stage.acts) + 1):
        failures: list[str] = []
        tries = 0
        while (act := stage.act(iteration, tries)) in (*FAILURES, LIMIT):
            tries += 1
            end.charged += 1
            if act == LIMIT:
                continue
            failures.append(FAILURES[act])
            if _is_final(failures, stage.max_attempts):
                end.broken.add(place)
                return iteration - 1, failures[-1]
        decision = "stop" if act == "stop" else "continue"
        end.results[place, iteration] = (summary_of(place, iteration, tries), decision)
        if stage.judge is None:
            if act == "stop":
                return iteration, None
        elif iteration >= stage.judged_from:
            end.judged[place, iteration] = judge.says(iteration)
            if judge.stops >= stage.consensus:
                return iteration, None
    return len(stage.acts), None


class _Judge:
    """One judge of one stage: stops in a row end it, failures in a row make it be given up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._failures = 0
        self.stops = 0

    def says(self, iteration: int) -> str:
        if self._failures >= JUDGE_IS_GIVEN_UP_AFTER:
            return "skipped"
        word = self._stage.judgment(iteration)
        if word in ("junk", "down"):
            self._failures += 1
            return "failed"
        self._failures = 0
        self.stops = self.stops + 1 if word in ("stop", "flaky") else 0
        return "stop" if self.stops else "go"


def _is_final(failures: list[str], max_attempts: int) -> bool:
    kind = failures[-1]
    if len(failures) >= max_attempts:
        return True
    if kind in ONCE_MORE:
        return failures.count(kind) > 1
    return kind not in AS_OFTEN_AS_ALLOWED

"""What a scripted run must come to, worked out without the engine: a plain simulation of the rules.

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
SUCCESSES = ("ok", "stop", "status")
ONCE_MORE = ("provider_crashed", "result_missing")
AS_OFTEN_AS_ALLOWED = ("provider_timeout",)


@dataclass(frozen=True)
class Stage:
    """`acts[i][t]`: what the agent does in iteration i+1 after t failures that counted."""

    name: str
    acts: tuple[tuple[str, ...], ...]
    max_attempts: int = 2

    def act(self, iteration: int, failures: int) -> str:
        script = self.acts[iteration - 1]
        return script[failures] if failures < len(script) else "ok"


@dataclass
class Expected:
    status: str = "completed"
    error: str | None = None
    finished: list[tuple[str, int]] = field(default_factory=list)
    """Stages that are done, with their iterations."""
    unfinished: tuple[str, int] | None = None
    """The stage that failed, with the iterations that it completed."""
    results: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    """Summary and decision by stage and iteration."""
    charged: int = 0
    """Failures that counted."""


def summary_of(stage: str, iteration: int, failures: int) -> str:
    return f"{stage} {iteration} after {failures}"


def expected(stages: tuple[Stage, ...]) -> Expected:
    end = Expected()
    for stage in stages:
        completed = 0
        for iteration in range(1, len(stage.acts) + 1):
            failures: list[str] = []
            while (act := stage.act(iteration, len(failures))) in FAILURES:
                failures.append(FAILURES[act])
                end.charged += 1
                if _is_final(failures, stage.max_attempts):
                    end.status, end.error = "failed", failures[-1]
                    end.unfinished = (stage.name, completed)
                    return end
            decision = "stop" if act == "stop" else "continue"
            end.results[stage.name, iteration] = (
                summary_of(stage.name, iteration, len(failures)),
                decision,
            )
            completed = iteration
            if act == "stop":
                break
        end.finished.append((stage.name, completed))
    return end


def _is_final(failures: list[str], max_attempts: int) -> bool:
    kind = failures[-1]
    if len(failures) >= max_attempts:
        return True
    if kind in ONCE_MORE:
        return failures.count(kind) > 1
    return kind not in AS_OFTEN_AS_ALLOWED

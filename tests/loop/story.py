"""The loop with an agent that does what a story says: real engine, real files, no programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sdk.projects import engine, run

from agentforge import RunResult, copy_pipeline
from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, says

STAGES = ("planner", "executor", "verifier", "reviewer")
REQUEST = "Add a slugify function"
FINE = {"level": "good", "explanation": "fine"}
DIMENSIONS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")


def plan(*ids: str, output: str = "planned", **more: Any) -> Act:
    """A work plan whose steps depend on each other in this order."""
    steps = [
        {"id": id, "title": f"Do {id}", "action": f"Do {id}.", "criteria": [f"{id} is done"]} for id in ids
    ]
    for before, step in zip(ids, steps[1:], strict=False):
        step["after"] = [before]
    return says("planned", output=output, artifact={"goal": "slugify exists", "steps": steps, **more})


def step(verdict: str = "pass", reason: str = "it does not work") -> Act:
    why = {"reason": reason} if verdict == "fail" else {}
    return says("did it", artifact={"verdict": verdict, "summary": "did it", **why})


def report(*redo: str) -> Act:
    """A verification that sends these steps back; none: it passes."""
    if not redo:
        return says("verified", artifact={"verdict": "pass", "checks": [{"name": "all", "status": "pass"}]})
    check = {"name": "all", "status": "fail", "reason": "it is wrong", "suggestion": "do it right"}
    wrong = {"verdict": "fail", "reason": "it is wrong", "items": list(redo), "checks": [check]}
    return says("verified", artifact=wrong)


def review(verdict: str = "pass") -> Act:
    dimensions: dict[str, Any] = dict.fromkeys(DIMENSIONS, FINE)
    why: dict[str, Any] = {}
    if verdict == "reject":
        why = {"reason": "an empty text has no slug"}
        dimensions |= {"completeness": {"level": "poor", "explanation": "an empty text has no slug"}}
    artifact = {
        "verdict": verdict,
        "summary": "looked at it",
        "tried": ["an empty text"],
        "dimensions": dimensions,
    }
    return says("reviewed", artifact=artifact | why)


USUAL: Mapping[str, Act] = {
    "planner": plan("s1", "s2"),
    "executor": step(),
    "verifier": report(),
    "reviewer": review(),
}


class Story:
    """What each stage does, call by call; afterwards, and without acts of its own, the usual."""

    def __init__(self, project: Path, **acts: Sequence[Act]) -> None:
        self.project = project
        self.acts = dict(acts)
        self._calls = Counter[str]()
        self.agent = ScriptedProvider(self._act, resumes=True)
        if not (project / ".claude/pipelines/loop.yaml").exists():
            copy_pipeline(project, "loop")
            # The same loop, without waiting.
            self.change("initial_delay: 1", "initial_delay: 0")

    def change(self, before: str, after: str) -> None:
        file = self.project / ".claude/pipelines/loop.yaml"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def _act(self, request: ExecuteRequest) -> Act:
        stage = request.stage
        self._calls[stage] += 1
        acts = self.acts.get(stage, ())
        return acts[self._calls[stage] - 1] if self._calls[stage] <= len(acts) else USUAL[stage]

    @property
    def stages(self) -> list[str]:
        """Of all calls of the agent, in order."""
        return [call.stage for call in self.agent.calls]

    def run(self, pipeline: str | None = "loop", **options: Any) -> RunResult:
        async def main() -> RunResult:
            async with engine(self.project, self.agent) as driving:
                given = {"provider": "scripted", "request": REQUEST, **options}
                return await driving.run(pipeline, session="s", **given)

        return run(main())

    def resume(self, **options: Any) -> RunResult:
        async def main() -> RunResult:
            async with engine(self.project, self.agent) as driving:
                return await driving.resume("s", **options)

        return run(main())

    def answer(self, request: str, answer: str) -> RunResult:
        async def main() -> RunResult:
            async with engine(self.project, self.agent) as driving:
                result = await driving.answer("s", answer, request=request)
                assert result is not None
                return result

        return run(main())

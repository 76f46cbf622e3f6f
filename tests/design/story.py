"""The pipeline `design` with an agent that does what a story says: real engine, real files, no programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sdk.projects import engine, load, run, run_dir

from agentforge import RunResult
from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, says

REQUEST = "Add OAuth2 authentication"
QUESTION = {"question": "Which provider?", "priority": "blocking", "context": "it decides the flow"}
ARTIFACTS: Mapping[str, dict[str, Any]] = {
    "intake": {"verdict": "clear", "detected_scope": "feature_addition", "priority": "medium"},
    "clarify": {"clarified_requirements": "Log in with GitHub.", "scope_confirmed": True},
    "analyze": {
        "analysis": {"summary": "There is no login yet."},
        "affected_files": ["app.py"],
        "components": [{"name": "login"}],
    },
    "spec": {
        "components": [{"name": "login", "type": "module"}],
        "test_cases": [{"id": "TC001"}],
        "acceptance_criteria": ["a user can log in", {"criterion": "it takes a second", "measurable": "yes"}],
    },
}
"""The least that each stage has to leave."""
FOLDERS = {stage: f"stage-{number:02d}-{stage}" for number, stage in enumerate(ARTIFACTS)}


def leaves(stage: str, **changes: Any) -> Act:
    return says(f"{stage} done", artifact={**ARTIFACTS[stage], **changes})


UNCLEAR = leaves("intake", verdict="pass", initial_questions=[QUESTION])


def asks(*questions: str) -> Act:
    listed = [{"question": text} for text in questions]
    return says("asked", decision="ask", questions=listed)


class Design:
    """What each stage does, call by call; afterwards, and without acts of its own, the usual."""

    def __init__(self, project: Path, **acts: Sequence[Act]) -> None:
        self.project = project
        self._acts = acts
        self._calls = Counter[str]()
        self._agent = ScriptedProvider(self._act, resumes=True)

    def _act(self, request: ExecuteRequest) -> Act:
        number, acts = self._calls[request.stage], self._acts.get(request.stage, ())
        self._calls[request.stage] += 1
        return acts[number] if number < len(acts) else leaves(request.stage)

    @property
    def stages(self) -> list[str]:
        """Of all calls of the agent, in order."""
        return [call.stage for call in self._agent.calls]

    def run(self, **options: Any) -> RunResult:
        async def main() -> RunResult:
            async with engine(self.project, self._agent) as driving:
                given = {"provider": "scripted", "request": REQUEST, **options}
                return await driving.run("design", session="s", **given)

        return run(main())

    def answer(self, answer: str, text: str = "") -> RunResult:
        async def main() -> RunResult:
            async with engine(self.project, self._agent) as driving:
                result = await driving.answer("s", answer, text=text)
                assert result is not None
                return result

        return run(main())

    def told(self, stage: str, number: int = 1, visit: int = 1) -> Any:
        """The context.json of an iteration."""
        folder = FOLDERS[stage] + (f"/run-{visit:03d}" if visit > 1 else "")
        return load(run_dir(self.project) / folder / f"iterations/{number:03d}/context.json")

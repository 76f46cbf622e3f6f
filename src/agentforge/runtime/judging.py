"""Asking the judge of a judgment stage: what it is shown, and what its answer means.

The judge is a provider like any other; a program runs under the supervisor, so that a later engine takes
its answer instead of asking again.
"""

import os
from collections.abc import Callable, Mapping

from agentforge.definition.template import fill
from agentforge.engine.judgment import read_judgment
from agentforge.engine.normalise import clean_output
from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.layout import IterationLayout
from agentforge.model.result import Usage
from agentforge.model.work import Judge
from agentforge.ports.provider import ExecuteRequest, Exit, Provider
from agentforge.runtime import files
from agentforge.runtime.attempts import RunSetting, is_program
from agentforge.runtime.run_view import RunView
from agentforge.runtime.supervised import MARK, Limits, Supervised

TIMEOUT = 300.0
HISTORY_CHARS = 200_000
"""What the judge is shown of earlier outputs at most; the latest come first in being kept."""
INVOKE_FAILED = "invoke_failed"
INVALID_JSON = "invalid_json"


class JudgeRunner:
    def __init__(
        self,
        setting: RunSetting,
        provider_of: Callable[[str], Provider],
        supervised: Supervised,
        environ: Mapping[str, str],
        builtin_prompt: str,
    ) -> None:
        self._setting = setting
        self._provider_of = provider_of
        self._supervised = supervised
        self._environ = environ
        self._builtin_prompt = builtin_prompt

    async def judge(self, work: Judge, view: RunView, *, fresh: bool) -> f.AnyFact:
        """The judgment on a complete iteration. What goes wrong fails the judgment, never the stage."""
        here = self._setting.layout.iteration(work.spot.folder(self._setting.plan), work.iteration)
        provider = self._provider_of(self._setting.plan.judge.type)
        if not is_program(provider):
            return await self._in_process(work, here, view, provider) if fresh else f.JudgeLost(work.attempt)
        place, mark = here.judge_attempt(work.attempt), self._mark(work)
        if fresh:
            try:
                command = provider.command(self._request(work, here, view))
            except ProviderUnusable as error:
                return _failed(work, f"{INVOKE_FAILED}: {error.message}")
            left = await self._supervised.run(place, command, mark, Limits(TIMEOUT))
        else:
            left = await self._supervised.take_up(place, mark, lambda _pid: None)
        record = left.record
        if record is None:
            return f.JudgeLost(work.attempt)
        text = (files.read_bytes(place.output) or b"").decode("utf-8", "replace")
        if record.status != "exited" or record.exit_code != 0:
            return _failed(work, INVOKE_FAILED)
        ended = provider.interpret(Exit(record.exit_code, record.signal, record.duration_ms, text))
        if ended.failure is not None:
            return _failed(work, INVOKE_FAILED)
        return self._read(work, here, ended.output, ended.usage)

    async def end(self, work: Judge) -> None:
        """Stop a judge that nobody waits for any more."""
        here = self._setting.layout.iteration(work.spot.folder(self._setting.plan), work.iteration)
        if is_program(self._provider_of(self._setting.plan.judge.type)):
            await self._supervised.end(here.judge_attempt(work.attempt), self._mark(work))

    async def _in_process(
        self, work: Judge, here: IterationLayout, view: RunView, provider: Provider
    ) -> f.AnyFact:
        try:
            ended = await provider.execute(self._request(work, here, view))
        except Exception as error:
            return _failed(work, f"{INVOKE_FAILED}: {error}")
        if ended.failure is not None or ended.exit_code != 0:
            return _failed(work, INVOKE_FAILED)
        return self._read(work, here, ended.output, ended.usage)

    def _read(self, work: Judge, here: IterationLayout, answer: str, usage: Usage | None) -> f.JudgeCompleted:
        files.replace(os.path.join(here.root, "judge.log"), clean_output(answer.encode()).text.encode())
        result = read_judgment(answer)
        if result is None:
            return _failed(work, INVALID_JSON, usage)
        files.replace(here.judge, files.compact(result))
        return f.JudgeCompleted("success", result, work.attempt, usage)

    def _request(self, work: Judge, here: IterationLayout, view: RunView) -> ExecuteRequest:
        setting, judge = self._setting, self._setting.plan.judge
        place = here.judge_attempt(work.attempt)
        files.make_dir(place.root)
        # A judge answers in words; where it writes files all the same, they are not the iteration's.
        return ExecuteRequest(
            prompt=self._prompt(work, here, view),
            model=judge.model,
            config=judge.config,
            workdir=setting.project,
            environment={
                **setting.environment,
                MARK: self._mark(work),
                "MOCK_ITERATION": str(work.iteration),
                "MOCK_PROVIDER": "judge",
            },
            status_path=os.path.join(place.root, "status.json"),
            result_path=os.path.join(place.root, "result.json"),
            session=setting.plan.session.name,
            stage=work.spot.node(setting.plan).id,
            iteration=work.iteration,
            attempt=work.attempt,
        )

    def _prompt(self, work: Judge, here: IterationLayout, view: RunView) -> str:
        setting, spot = self._setting, work.spot
        node = spot.node(setting.plan)
        progress = setting.layout.progress(
            setting.plan.mode, spot.folder(setting.plan), spot.scope(setting.plan)
        )
        outputs = view.history.stage(spot.path, spot.provider, spot.run).paths
        return fill(
            self._template(),
            {
                "STAGE_NAME": node.name or node.id,
                "ITERATION": str(work.iteration),
                "GOAL": node.description or node.context or "",
                "RESULT_JSON": files.read_text(here.result) or "",
                "PROGRESS_TEXT": files.read_text(progress) or "",
                "HISTORY": _history(outputs),
            },
        )

    def _template(self) -> str:
        home = self._environ.get("HOME", "")
        places = (
            self._environ.get("JUDGE_PROMPT_PATH", ""),
            os.path.join(home, ".config", "agent-pipelines", "prompts", "judge.md") if home else "",
            os.path.join(self._setting.project, "scripts", "prompts", "judge.md"),
        )
        texts = (files.read_text(path) for path in places if path)
        return next((text for text in texts if text is not None), self._builtin_prompt)

    def _mark(self, work: Judge) -> str:
        return f"{self._setting.run_id}/{work.id}"


def _history(outputs: list[str]) -> str:
    """Earlier outputs, oldest first; the oldest are left out when all would be too much."""
    kept: list[str] = []
    room = HISTORY_CHARS
    for path in reversed(outputs):
        text = files.read_text(path) or ""
        room -= len(text)
        if room < 0:
            kept.append(f"({len(outputs) - len(kept)} earlier outputs are left out)")
            break
        kept.append(f"### {os.path.basename(os.path.dirname(path))}\n\n{text.strip()}\n")
    return "\n".join(reversed(kept))


def _failed(work: Judge, reason: str, usage: Usage | None = None) -> f.JudgeCompleted:
    kind = reason.partition(":")[0]
    return f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason=kind), work.attempt, usage)

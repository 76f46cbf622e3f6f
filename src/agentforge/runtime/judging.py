"""Asking the judge of a judgment stage: what it is shown, and what its answer means.

The judge is a provider like any other; a program runs under the supervisor, so that a later engine takes
its answer instead of asking again.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from msgspec.structs import replace

from agentforge.definition.template import fill
from agentforge.engine.judgment import read_judgment
from agentforge.engine.node_keys import recorded_key
from agentforge.engine.normalise import clean_output
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError, ProviderUnusable, StorageFailed, UnknownProvider
from agentforge.model.layout import AttemptLayout, IterationLayout
from agentforge.model.result import Usage
from agentforge.model.work import EndJudge, Judge
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, ProcessProvider, Provider
from agentforge.runtime.attempts import RunSetting, is_program
from agentforge.runtime.confining import Confiner
from agentforge.runtime.exit_record import exit_of
from agentforge.runtime.recorded_steps import judge_failure
from agentforge.runtime.run_view import RunView
from agentforge.runtime.supervised import MARK, Left, Limits, Supervised

log = logging.getLogger("agentforge.run")

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
        turns: Mapping[str, asyncio.Lock],
        supervised: Supervised,
        *,
        confiner: Confiner,
        environ: Mapping[str, str],
        builtin_prompt: str,
    ) -> None:
        self._setting = setting
        self._provider_of = provider_of
        self._turns = turns
        self._supervised = supervised
        self._confiner = confiner
        self._environ = environ
        self._builtin_prompt = builtin_prompt

    async def judge(self, work: Judge, view: RunView, *, fresh: bool) -> f.AnyFact:
        """The judgment on a complete iteration. What goes wrong fails the judgment, never the stage."""
        try:
            provider = self._provider_of(self._setting.plan.judge.type)
        except (ProviderUnusable, UnknownProvider) as error:
            return self._unheard(work, error.message)
        if fresh:
            async with self._turns.get(provider.name, nullcontext()):
                # One call at a time for a provider that doesn't stand several.
                if is_program(provider):
                    return await self._start(work, view, provider)
                return await self._in_process(work, view, provider)
        if not is_program(provider):
            return f.JudgeLost(work.attempt)
        left = await self._supervised.take_up(self._place(work), self._mark(work), lambda _pid: None)
        return self._outcome(work, provider, left)

    async def end(self, work: EndJudge) -> f.AnyFact:
        """Stop a judge that nobody waits for any more; if it had answered by then, its answer counts."""
        asked = Judge(work.place, work.node, work.iteration, work.attempt)
        try:
            provider = self._provider_of(self._setting.plan.judge.type)
        except (ProviderUnusable, UnknownProvider):
            # Whoever it was, its program is known by its claim.
            provider = None
        if provider is not None and not is_program(provider):
            return f.JudgeLost(work.attempt)
        left = await self._supervised.end(self._place(asked), self._mark(asked))
        return f.JudgeLost(work.attempt) if provider is None else self._outcome(asked, provider, left)

    async def _start(self, work: Judge, view: RunView, provider: ProcessProvider) -> f.AnyFact:
        place = self._place(work)
        request = self._request(work, view)
        try:
            command = provider.command(request)
            sandbox = None if self._setting.is_replay else work.node.sandbox
            confined = self._confiner.confine(command, sandbox, place, ())
        except ProviderUnusable as error:
            return self._unheard(work, error.message)
        except AgentForgeError:
            raise
        except Exception as error:
            return self._unheard(work, f"{type(error).__name__}: {error}")
        left = await self._supervised.run(place, confined, self._mark(work), Limits(TIMEOUT))
        return self._outcome(work, provider, left)

    def _outcome(self, work: Judge, provider: ProcessProvider, left: Left) -> f.AnyFact:
        record = left.record
        if record is None:
            return f.JudgeLost(work.attempt)
        if record.status != "exited":
            return self._unheard(work, record.error or record.status)
        exit = exit_of(record, self._place(work), self._setting.plan.judge)
        try:
            ended = provider.interpret(exit)
        except Exception as error:
            return self._unheard(work, f"{type(error).__name__}: {error}")
        return self._heard(work, ended)

    async def _in_process(self, work: Judge, view: RunView, provider: Provider) -> f.AnyFact:
        try:
            async with asyncio.timeout(TIMEOUT):
                ended = await provider.execute(self._request(work, view))
        except StorageFailed:
            raise
        except Exception as error:
            return self._unheard(work, f"{type(error).__name__}: {error}")
        return self._heard(work, ended)

    def _heard(self, work: Judge, ended: ExecuteResult) -> f.JudgeCompleted:
        return self._recorded(work, ended, self._read(work, ended))

    def _unheard(self, work: Judge, why: str) -> f.JudgeCompleted:
        return self._recorded(work, judge_failure(why), _failed(work, why))

    def _recorded(self, work: Judge, ended: ExecuteResult, fact: f.JudgeCompleted) -> f.JudgeCompleted:
        if self._setting.recorder:
            self._setting.recorder.judged(work, ended, fact)
        return fact

    def _read(self, work: Judge, ended: ExecuteResult) -> f.JudgeCompleted:
        here, hide = self._here(work), self._setting.redactor.text
        ended = replace(ended, output=hide(ended.output))
        said = clean_output(ended.output.encode("utf-8", "replace")).text
        files.replace(os.path.join(here.root, "judge.log"), said.encode())
        if ended.failure is not None or ended.exit_code != 0:
            why = ended.failure.message if ended.failure else f"exit status {ended.exit_code}"
            return _failed(work, hide(why), ended.usage)
        result = read_judgment(ended.output)
        if result is None:
            log.warning("the judge's answer on iteration %d can't be read as JSON", work.iteration)
            return f.JudgeCompleted(
                "failed", f.JudgeResult(stop=False, reason=INVALID_JSON), work.attempt, ended.usage
            )
        files.replace(here.judge, files.compact(result))
        return f.JudgeCompleted("success", result, work.attempt, ended.usage)

    def _here(self, work: Judge) -> IterationLayout:
        return self._setting.layout.iteration(work.place.folder, work.iteration)

    def _place(self, work: Judge) -> AttemptLayout:
        return self._here(work).judge_attempt(work.attempt)

    def _request(self, work: Judge, view: RunView) -> ExecuteRequest:
        setting, judge, place = self._setting, self._setting.plan.judge, self._place(work)
        files.make_dir(place.root)
        # A judge answers in words; where it writes files all the same, they are not the iteration's.
        return ExecuteRequest(
            prompt=self._prompt(work, view),
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
            stage=work.node.id,
            iteration=work.iteration,
            attempt=work.attempt,
            node=recorded_key(setting.plan, work.place.path, work.place.run),
            branch=work.place.branch or "",
            judges=True,
        )

    def _prompt(self, work: Judge, view: RunView) -> str:
        setting, place, node = self._setting, work.place, work.node
        progress = setting.layout.progress(setting.plan.mode, place.folder, place.scope)
        outputs = view.history.stage(place.path, place.branch, place.run).paths
        return fill(
            self._template(),
            {
                "STAGE_NAME": node.name or node.id,
                "ITERATION": str(work.iteration),
                "GOAL": node.description or node.context or "",
                "RESULT_JSON": files.read_text(self._here(work).result) or "",
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
        texts = (_readable(path) for path in places if path)
        return next((text for text in texts if text is not None), self._builtin_prompt)

    def _mark(self, work: Judge) -> str:
        return f"{self._setting.run_id}/{work.id}"


def _readable(path: str) -> str | None:
    try:
        return files.read_text(path)
    except StorageFailed as error:
        log.warning("the judge's prompt can't be read, the next one is taken: %s", error.message)
        return None


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


def _failed(work: Judge, why: str, usage: Usage | None = None) -> f.JudgeCompleted:
    log.warning("the judge couldn't be asked about iteration %d: %s", work.iteration, why)
    unheard = f.JudgeResult(stop=False, reason=INVOKE_FAILED)
    return f.JudgeCompleted("failed", unheard, work.attempt, usage)

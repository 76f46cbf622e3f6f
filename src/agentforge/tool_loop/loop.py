"""The tool loop: a model is asked, its tools are run, until it completes the task or can't go on.

pydantic-ai does the talking. What is ours: asking again after trouble, with the conversation as it was
before the request; noticing an answer that was cut short; keeping the conversation on disk; judging what
the model completes with.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic_ai import Agent, ModelRetry, RunContext, StructuredDict, ToolOutput
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import UsageLimits

from agentforge.model.failure import Failure, FailureKind
from agentforge.tool_loop.conversation import (
    COMPLETE,
    COMPLETE_DESCRIPTION,
    Conversation,
    SessionStore,
    begin,
    complete_schema,
    concluded,
    system_of,
)
from agentforge.tool_loop.models import (
    Narrator,
    StepLimit,
    StreamCut,
    TooLong,
    Trouble,
    model_of,
    settings_from_pairs,
    trouble_of,
)
from agentforge.tool_loop.task import (
    Ended,
    ExtraTool,
    ModelTask,
    ProgressEvent,
    Retrying,
    SessionBegun,
    TaskOutcome,
    ToolCalled,
    Warned,
    encode,
)
from agentforge.tool_loop.tools.toolbox import (
    RECORDED,
    Handler,
    NotASchema,
    ProgressReport,
    Toolbox,
    misfits,
    shown,
    validator,
)
from agentforge.tool_loop.workspace import WorkspaceFolder

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
"""A longer one is the engine's: its timers survive a restart."""
CORRECTIONS = 3
"""How often the model may correct a call that isn't valid."""
FAILED, TERMINATED = 1, 143


async def run_task(
    task: ModelTask,
    *,
    key: str = "",
    environ: Mapping[str, str] | None = None,
    report: ProgressReport | None = None,
    handlers: Mapping[str, Handler] | None = None,
) -> TaskOutcome:
    """Do the task; what fails is in the outcome, and nothing is raised but cancelling.

    `environ` is what commands find, `handlers` answers the caller's own tools, by name.
    """
    report = report or (lambda _event: None)
    store = SessionStore(task.files.sessions)
    talk = begin(task, store)
    report(SessionBegun(talk.session, task.endpoint.model, talk.resumed))
    if task.resume and not talk.resumed:
        report(Warned(f"session {task.resume!r} isn't there any more: beginning a new one"))
    workspace = WorkspaceFolder(task.files.workspace, task.files.protected, task.files.writable)
    try:
        tools = Toolbox(task, workspace, environ or {}, report, handlers or {})
        failure = await _Loop(task, talk, tools, store, report).run(key)
        return concluded(task, talk, tools, failure)
    finally:
        workspace.close()


class _Loop:
    def __init__(
        self, task: ModelTask, talk: Conversation, tools: Toolbox, store: SessionStore, report: ProgressReport
    ) -> None:
        self._task = task
        self._talk = talk
        self._tools = tools
        self._store = store
        self._report = report
        self._troubles = 0
        """In a row, without a good answer between them."""

    async def run(self, key: str) -> Failure | None:
        try:
            async with model_of(self._task.endpoint, key) as model:
                return await self._work(self._agent(model))
        except Exception as error:
            return _unusable(error, self._task)

    async def _work(self, agent: Agent[None, Any]) -> Failure | None:
        while True:
            try:
                await self._ask(agent)
            except Exception as error:
                trouble = trouble_of(error, self._task.endpoint, datetime.now(UTC))
                if not await self._may_go_on(trouble):
                    return trouble.failure
            else:
                return None

    def _agent(self, model: Model) -> Agent[None, Any]:
        endings = _endings(self._task)
        agent: Agent[None, Any] = Agent(
            model,
            name="task",
            instructions=system_of(self._task),
            tools=self._tools.tools(),
            output_type=[*(_output(tool) for tool in endings), *([] if self._task.schema else [str])],
            retries={"tools": CORRECTIONS, "output": CORRECTIONS},
        )
        checks = {tool.name: validator(tool.input_schema) for tool in endings}
        if self._task.schema is not None:
            validator(self._task.schema)

        @agent.output_validator
        def valid(context: RunContext[None], given: Any) -> Any:
            name = context.tool_name
            if name is None:
                self._talk.text = str(given)
                return given
            self._report(ToolCalled(name, shown(given)))
            wrong = misfits(checks[name], given) + _misfits_of_result(self._task, name, given)
            if wrong:
                self._tools.note(name, given, "error: " + "; ".join(wrong))
                raise ModelRetry("\n".join(wrong))
            self._tools.note(name, given, RECORDED)
            self._talk.ended_by = (name, given)
            return given

        return agent

    async def _ask(self, agent: Agent[None, Any]) -> None:
        talk = self._talk
        async with agent.iter(
            talk.prompt,
            message_history=talk.messages,
            usage=talk.usage,
            usage_limits=UsageLimits(request_limit=None),
            model_settings=settings_from_pairs(self._task),
        ) as run:
            narrator = Narrator(self._report)
            async for node in run:
                if Agent.is_model_request_node(node):
                    self._keep([*run.all_messages(), node.request])
                    if talk.steps >= self._task.max_steps:
                        raise StepLimit
                    async with node.stream(run.ctx) as stream:
                        async for event in stream:
                            narrator.hear(event)
                    narrator.flush()
                    self._accept(run)

    def _accept(self, run: AgentRun[None, Any]) -> None:
        """Take the answer into the conversation, if it is whole."""
        answer = run.all_messages()[-1]
        if not isinstance(answer, ModelResponse) or not (answer.provider_details or {}).get("finish_reason"):
            raise StreamCut
        if answer.finish_reason == "length" and not answer.tool_calls:
            raise TooLong
        self._troubles = 0
        self._talk.steps += 1
        self._keep(run.all_messages())

    def _keep(self, messages: list[ModelMessage]) -> None:
        talk = self._talk
        talk.messages, talk.prompt = list(messages), None
        self._store.save(talk.session, self._task.endpoint.model, self._task.prompt, talk.messages)

    async def _may_go_on(self, trouble: Trouble) -> bool:
        self._troubles += 1
        if not trouble.again or self._troubles > self._task.retries:
            return False
        wait = FIRST_WAIT * 2 ** (self._troubles - 1) if trouble.wait is None else trouble.wait
        if wait > LONGEST_WAIT:
            return False
        self._report(Retrying(self._troubles, round(wait, 1), trouble.failure.message))
        await asyncio.sleep(wait)
        return True


def _endings(task: ModelTask) -> list[ExtraTool]:
    theirs = [tool for tool in task.extra_tools if tool.ends]
    if any(tool.name == COMPLETE for tool in task.extra_tools):
        return theirs
    return [ExtraTool(COMPLETE, COMPLETE_DESCRIPTION, complete_schema(task.schema), ends=True), *theirs]


def _output(tool: ExtraTool) -> ToolOutput[Any]:
    return ToolOutput(
        StructuredDict(tool.input_schema), name=tool.name, description=tool.description, strict=False
    )


def _misfits_of_result(task: ModelTask, name: str, given: dict[str, Any]) -> list[str]:
    """What `complete` is shown may be less than the schema itself asks for."""
    if task.schema is None or name != COMPLETE or "result" not in given:
        return []
    return misfits(validator(task.schema), given["result"])


def _unusable(error: Exception, task: ModelTask) -> Failure:
    if isinstance(error, NotASchema):
        return Failure(FailureKind.PROVIDER_MISSING, f"`schema` is no JSON Schema: {error}")
    return trouble_of(error, task.endpoint, datetime.now(UTC)).failure


def run(key: str) -> int:
    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=ModelTask)
    except msgspec.DecodeError as error:
        failure = Failure(FailureKind.PROVIDER_CRASHED, f"the task can't be read: {error}")
        _say(Ended("failed", failure=failure))
        return FAILED
    try:
        outcome = asyncio.run(_until_told(task, key))
    except asyncio.CancelledError:
        return TERMINATED
    how = "failed" if outcome.failure else "completed"
    _say(Ended(how, outcome.text, outcome.steps, outcome.usage, outcome.failure))
    return FAILED if outcome.failure else 0


async def _until_told(task: ModelTask, key: str) -> TaskOutcome:
    """Do the task; SIGTERM and SIGINT end it at once, with what its tools started."""
    work = asyncio.current_task()
    assert work is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await run_task(task, key=key, environ=dict(os.environ), report=_say)


def _say(event: ProgressEvent) -> None:
    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()

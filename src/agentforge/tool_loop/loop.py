"""The tool loop: call the model and run its tools until it completes the task or fails.

pydantic-ai calls the model. This module retries failed requests with the conversation as it was before the
request, detects truncated answers, saves the conversation to disk, and validates the model's result.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic_ai import Agent, ModelRetry, RunContext, StructuredDict, ToolOutput
from pydantic_ai.exceptions import IncompleteToolCall
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import UsageLimits

from agentforge.model.errors import NOT_JSON
from agentforge.model.failure import Failure, FailureKind
from agentforge.system.linux import protect_process
from agentforge.system.schemas import InvalidSchema, JsonSchema
from agentforge.tool_loop.budget import Budget, BudgetUsedUp
from agentforge.tool_loop.conversation import (
    COMPLETE,
    COMPLETE_DESCRIPTION,
    Conversation,
    SessionStore,
    complete_errors,
    complete_schema,
    start_conversation,
    write_outcome,
)
from agentforge.tool_loop.models import (
    Narrator,
    RequestFailure,
    StepLimit,
    StreamCut,
    TooLong,
    model_of,
    request_failure,
    settings_of,
)
from agentforge.tool_loop.prices import priced
from agentforge.tool_loop.task import (
    SYSTEM,
    ExtraTool,
    LoopEnded,
    LoopOutcome,
    ModelTask,
    ProgressEvent,
    Retrying,
    SessionBegun,
    ToolCalled,
    Warned,
    encode,
)
from agentforge.tool_loop.toolbox import (
    RECORDED,
    Handler,
    ProgressReport,
    Toolbox,
    schema_errors,
    shortened,
)
from agentforge.tool_loop.workspace import WorkspaceFolder

# One task is one conversation, which is extended by whole answers only. Before each request it is saved as it
# is then; if the request fails, or its answer breaks off, the next one begins with what was saved. So neither
# a retry nor an attempt that resumes the session ever continues from half an answer, and a tool call that the
# model had not finished never runs. A tool call that did run may be missing from the saved messages if the
# process is killed in it: the prompt of a resumed session says so (`RESUME`).
#
# The retries of the client libraries are switched off (`settings_of`), as they are not reported. An answer
# without a finish reason counts as cut off: its stream ended before the server said that it was complete.
#
# A task ends with a call of `complete`, or of a tool of the caller that ends it. Its input is validated here,
# where the model can still correct it, and not only by the engine, for which a wrong result is a failed
# attempt.

FIRST_WAIT = 0.5
MAX_WAIT = 30.0
"""Longer waits are left to the engine: its timers survive a restart."""
CORRECTIONS = 3
"""How often the model may correct an invalid call."""
FAILED, TERMINATED = 1, 143


async def run_task(
    task: ModelTask,
    *,
    key: str = "",
    environ: Mapping[str, str] | None = None,
    report: ProgressReport | None = None,
    handlers: Mapping[str, Handler] | None = None,
) -> LoopOutcome:
    """Run the task; failures are returned in the outcome, and only cancellation is raised.

    `environ` is the environment of commands, `handlers` implement the caller's own tools, by name.
    """
    task = priced(task)
    report = report or (lambda _event: None)
    store = SessionStore(task.files.sessions)
    conversation = start_conversation(task, store)
    report(SessionBegun(conversation.session, task.endpoint.model, conversation.resumed))
    if task.resume and not conversation.resumed:
        report(Warned(f"session {task.resume!r} not found: starting a new one"))
    workspace = WorkspaceFolder(task.files.workspace, task.files.protected, task.files.writable)
    try:
        tools = Toolbox(task, workspace, environ or {}, report, handlers or {})
        failure = await _Loop(task, conversation, tools, store, report).run(key)
        return write_outcome(task, conversation, tools, failure)
    finally:
        workspace.close()


class _Loop:
    def __init__(
        self,
        task: ModelTask,
        conversation: Conversation,
        tools: Toolbox,
        store: SessionStore,
        report: ProgressReport,
    ) -> None:
        self._task = task
        self._talk = conversation
        self._tools = tools
        self._store = store
        self._report = report
        self._failures = 0
        """Consecutive failed requests."""
        self._budget = Budget(task, conversation.usage)
        self._max_tokens = task.max_tokens
        """Of the next answer."""
        self._besides = 0
        """The bytes of what a request has besides its messages."""

    async def run(self, key: str) -> Failure | None:
        try:
            async with model_of(self._task.endpoint, key) as model:
                return await self._work(self._agent(model))
        except InvalidSchema as error:
            return Failure(FailureKind.PROVIDER_MISSING, f"`schema` is not a valid JSON Schema: {error}")
        except Exception as error:
            return request_failure(error, self._task.endpoint, datetime.now(UTC)).failure

    async def _work(self, agent: Agent[None, Any]) -> Failure | None:
        while True:
            try:
                await self._ask(agent)
            except Exception as error:
                self._budget.failed(error)
                if self._budget.is_short and isinstance(error, TooLong | IncompleteToolCall):
                    error = BudgetUsedUp(f"it left {self._max_tokens} tokens for an answer, which took more")
                failed = request_failure(error, self._task.endpoint, datetime.now(UTC))
                if not await self._wait_to_retry(failed):
                    return self._about_artifact(failed.failure)
            else:
                return None

    def _about_artifact(self, failure: Failure) -> Failure:
        is_one = self._task.is_artifact and failure.kind is FailureKind.RESULT_INVALID
        return replace(failure, kind=FailureKind.ARTIFACT_INVALID) if is_one else failure

    def _agent(self, model: Model) -> Agent[None, Any]:
        task = self._task
        if task.schema is not None:
            JsonSchema(task.schema)
        endings = [tool for tool in task.extra_tools if tool.ends]
        if _offers_complete(task):
            schema = complete_schema(task.schema, task.verdicts, returns_items=task.returns_items)
            endings.insert(0, ExtraTool(COMPLETE, COMPLETE_DESCRIPTION, schema, ends=True))
        outputs: list[Any] = [
            ToolOutput(
                StructuredDict(tool.input_schema), name=tool.name, description=tool.description, strict=False
            )
            for tool in endings
        ]
        system = task.system or SYSTEM.format(workspace=task.files.workspace, complete=COMPLETE)
        tools = self._tools.tools()
        shown = [(tool.name, tool.description, tool.function_schema.json_schema) for tool in tools]
        self._besides = len(msgspec.json.encode([system, shown, endings]))
        agent: Agent[None, Any] = Agent(
            model,
            name="task",
            instructions=system,
            tools=tools,
            # Without a schema for the result, an answer that is only text is complete, too.
            output_type=outputs if task.schema else [*outputs, str],
            retries={"tools": CORRECTIONS, "output": CORRECTIONS},
        )
        checks = {tool.name: JsonSchema(tool.input_schema) for tool in endings}

        @agent.output_validator
        def valid(context: RunContext[None], given: Any) -> Any:
            name = context.tool_name
            if name is None:
                self._talk.text = str(given)
                return given
            self._report(ToolCalled(name, shortened(given)))
            wrong = schema_errors(checks[name], given)
            if name == COMPLETE and _offers_complete(task):
                wrong += complete_errors(given, task.schema)
            if wrong:
                self._tools.note(name, given, "error: " + "; ".join(wrong))
                raise ModelRetry("\n".join(wrong))
            self._tools.note(name, given, RECORDED)
            self._talk.ended_by = (name, given)
            return given

        return agent

    async def _ask(self, agent: Agent[None, Any]) -> None:
        conversation = self._talk
        async with agent.iter(
            conversation.prompt,
            message_history=conversation.messages,
            usage=conversation.usage,
            usage_limits=UsageLimits(request_limit=None),
            model_settings=lambda _: settings_of(self._task, self._max_tokens),
        ) as run:
            narrator = Narrator(self._report)
            async for node in run:
                if Agent.is_model_request_node(node):
                    # With the results of the tools that just ran: they must not run again.
                    self._keep([*run.all_messages(), node.request])
                    if conversation.steps >= self._task.max_steps:
                        raise StepLimit
                    self._max_tokens = self._budget.allow(conversation.messages, self._besides)
                    async with node.stream(run.ctx) as stream:
                        async for event in stream:
                            narrator.hear(event)
                    narrator.flush()
                    self._accept(run)

    def _accept(self, run: AgentRun[None, Any]) -> None:
        """Add the answer to the conversation, if it is complete."""
        answer = run.all_messages()[-1]
        if not isinstance(answer, ModelResponse) or not (answer.provider_details or {}).get("finish_reason"):
            raise StreamCut
        self._budget.answered(answer.usage)
        if answer.finish_reason == "length" and not answer.tool_calls:
            raise TooLong
        self._failures = 0
        self._talk.steps += 1
        self._keep(run.all_messages())

    def _keep(self, messages: list[ModelMessage]) -> None:
        conversation = self._talk
        conversation.messages, conversation.prompt = list(messages), None
        self._store.save(
            conversation.session, self._task.endpoint.model, self._task.prompt, conversation.messages
        )

    async def _wait_to_retry(self, failed: RequestFailure) -> bool:
        """Wait before the next attempt; False if the request must not be retried."""
        self._failures += 1
        if not failed.retryable or self._failures > self._task.retries:
            return False
        # The endpoint knows best how long; without a hint the wait doubles.
        wait = FIRST_WAIT * 2 ** (self._failures - 1) if failed.wait is None else failed.wait
        if wait > MAX_WAIT:
            return False
        self._report(Retrying(self._failures, round(wait, 1), failed.failure.message))
        await asyncio.sleep(wait)
        return True


def _offers_complete(task: ModelTask) -> bool:
    return task.has_complete and all(tool.name != COMPLETE for tool in task.extra_tools)


def run(key: str) -> int:
    protect_process()  # The model's commands run as the same user.
    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=ModelTask)
    except NOT_JSON as error:
        failure = Failure(FailureKind.PROVIDER_CRASHED, f"can't read the task: {error}")
        _print_event(LoopEnded("failed", failure=failure))
        return FAILED

    async def run_until_signal() -> LoopOutcome:
        """SIGTERM and SIGINT end the task at once, with everything its tools started."""
        work = asyncio.current_task()
        assert work is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        return await run_task(task, key=key, environ=dict(os.environ), report=_print_event)

    try:
        outcome = asyncio.run(run_until_signal())
    except asyncio.CancelledError:
        return TERMINATED
    how = "failed" if outcome.failure else "completed"
    _print_event(LoopEnded(how, outcome.text, outcome.steps, outcome.usage, outcome.failure))
    return FAILED if outcome.failure else 0


def _print_event(event: ProgressEvent) -> None:
    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()

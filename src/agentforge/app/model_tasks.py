"""A task of a model in this process, for programs: what the provider `api` runs as a program of its own."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from agentforge.adapters.providers.api import ApiProvider
from agentforge.app.runs.lookup import existing_project
from agentforge.app.wiring import sources_of
from agentforge.definition.precedence import choose_provider, gather
from agentforge.definition.report import Report
from agentforge.definition.settings import read_settings
from agentforge.model.errors import DefinitionError
from agentforge.model.layout import CONTROL, RUNS
from agentforge.model.plan import NETWORK, Overrides, ProviderChoice
from agentforge.ports.provider import ExecuteRequest
from agentforge.tool_loop.task import TOOLS, ExtraTool, Files, LoopOutcome

API = "api"


def run_model_task(
    prompt: str,
    *,
    project: str | os.PathLike[str] = ".",
    model: str = "",
    system: str = "",
    tools: Sequence[ExtraTool] = (),
    handlers: Mapping[str, Callable[..., Any]] | None = None,
    config: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoopOutcome:
    """Run the task to its end, also from within an event loop. Failures are in the outcome.

    `handlers` implement `tools`, by name; one with the name of a built-in tool and without a handler is that
    tool. `model` and `config`, settings of the provider `api`, override what the project's settings say of
    it. Raises ProviderUnusable if the extra `api` is not installed or the model can't be used.
    """
    environ = os.environ if environ is None else environ
    folder = os.path.realpath(existing_project(project))
    chosen, variables = _settings(folder, environ)
    provider = ApiProvider(environ, config={**chosen.config, **(config or {})})
    provider.validate()
    built_in = [tool.name for tool in tools if tool.name in TOOLS and tool.name not in (handlers or {})]
    request = ExecuteRequest(prompt, model or chosen.model, {}, folder, variables, "", "")
    task, environment = provider.task(request)
    task = replace(
        task,
        system=system or task.system,
        files=Files(folder, protected=tuple(os.path.join(folder, name) for name in (RUNS, *CONTROL))),
        tools=tuple(built_in),
        extra_tools=tuple(tool for tool in tools if tool.name not in built_in),
        has_complete=False,
    )
    # Commands of the model must not see the key.
    key = environment.pop(task.endpoint.key_env, "")

    async def run() -> LoopOutcome:
        from agentforge.tool_loop.loop import run_task

        return await run_task(task, key=key, environ=environment, handlers=handlers)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


def _settings(project: str, environ: Mapping[str, str]) -> tuple[ProviderChoice, dict[str, str]]:
    """What the settings and the environment say about the provider `api`, and about the network."""
    report = Report()
    settings = read_settings(sources_of(project, environ), report)
    above = gather(environ, Overrides(), report)
    if report.has_errors:
        raise DefinitionError(report.diagnostics)
    levels = [level.provider for level in (*settings.works, *above.levels)]
    chosen, _ = choose_provider(levels)
    is_local = settings.is_local or above.overrides.local
    return chosen if chosen.type == API else ProviderChoice(API, ""), {NETWORK: "local"} if is_local else {}

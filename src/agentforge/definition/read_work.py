"""Reading how work is to be done: the keys that nodes, stages and a pipeline's defaults share."""

from agentforge.definition.fields import Fields, as_count, as_text
from agentforge.definition.read_provider import read_provider
from agentforge.definition.read_sandbox import read_sandbox
from agentforge.definition.spec import LimitSpec, RetrySpec, TerminationSpec, WorkSpec, Written
from agentforge.definition.tree import Keyed, Scalar

# How the older form of stages spells its terminations.
_COMPLETIONS = {"beads-empty": "queue", "plateau": "judgment", "fixed-n": "fixed"}


def read_work(fields: Fields) -> WorkSpec:
    termination, runs = _termination(fields)
    return WorkSpec(
        provider=read_provider(fields),
        description=fields.text("description"),
        prompt=fields.text("prompt"),
        context=fields.text("context"),
        output_path=fields.text("output_path"),
        commands=fields.texts("commands"),
        runs=runs,
        termination=termination,
        check_before=fields.flag("check_before"),
        delay=fields.number("delay"),
        timeout=fields.number("timeout"),
        idle_timeout=fields.number("idle_timeout"),
        retry=_retry(fields),
        max_runtime=read_guardrails(fields),
        on_limit=_on_limit(fields),
        semantics=fields.text("semantics"),
        sandbox=read_sandbox(fields),
    )


def read_defaults(fields: Fields) -> WorkSpec:
    """What a pipeline may say for all of its nodes."""
    return WorkSpec(
        provider=read_provider(fields),
        delay=fields.number("delay"),
        timeout=fields.number("timeout"),
        idle_timeout=fields.number("idle_timeout"),
        retry=_retry(fields),
        on_limit=_on_limit(fields),
        semantics=fields.text("semantics"),
        sandbox=read_sandbox(fields),
    )


def read_guardrails(fields: Fields) -> Written[float] | None:
    keyed = fields.keyed("guardrails")
    if keyed is None:
        return None
    guardrails = fields.inside(keyed, "guardrails")
    limit = guardrails.number("max_runtime_seconds")
    guardrails.end()
    return limit


def _termination(fields: Fields) -> tuple[TerminationSpec | None, Written[int] | None]:
    """`termination`, else a mapping under `runs`, else the older `completion`; and the number of runs."""
    keyed, runs = fields.keyed("termination"), fields.tree("runs")
    completion = fields.text("completion")
    minimum, consensus = fields.count("min_iterations"), fields.count("consensus")
    if keyed is None and isinstance(runs, Keyed):
        keyed, runs = runs, None
    count = as_count(runs, "`runs`", fields.report) if runs else None
    if keyed is None and completion:
        kind = Written(_COMPLETIONS.get(completion.value, completion.value), completion.at)
        spec = TerminationSpec(kind, min_iterations=minimum, consensus=consensus)
        return spec, count
    for key in (fields.key("min_iterations"), fields.key("consensus")):
        if key:
            _warn_of_effectless(fields, key)
    return _termination_mapping(fields, keyed) if keyed else None, count


def _warn_of_effectless(fields: Fields, key: Scalar) -> None:
    fields.report.warning(
        "ignored-key",
        key.at,
        f"`{key.text}` belongs to the older `completion` and has no effect here",
        hint="move it into `termination`",
    )


def _termination_mapping(fields: Fields, keyed: Keyed) -> TerminationSpec:
    inner = fields.inside(keyed, "termination")
    spec = TerminationSpec(
        type=inner.text("type"),
        max=inner.count("max"),
        iterations=inner.count("iterations"),
        min_iterations=inner.count("min_iterations"),
        consensus=inner.count("consensus"),
        check_before=inner.flag("check_before"),
        command=inner.text("command"),
    )
    inner.end()
    return spec


def _retry(fields: Fields) -> RetrySpec | None:
    keyed = fields.keyed("retry")
    if keyed is None:
        return None
    retry = fields.inside(keyed, "retry")
    spec = RetrySpec(
        max_attempts=retry.count("max_attempts"),
        initial_delay=retry.number("initial_delay"),
        multiplier=retry.number("multiplier"),
        max_delay=retry.number("max_delay"),
    )
    retry.end()
    return spec


def _on_limit(fields: Fields) -> LimitSpec | None:
    """`on_limit: wait`, or a mapping in which that is `do`."""
    tree = fields.tree("on_limit")
    if tree is None:
        return None
    if not isinstance(tree, Keyed):
        return LimitSpec(do=as_text(tree, "`on_limit`", fields.report))
    inner = fields.inside(tree, "on_limit")
    spec = LimitSpec(
        do=inner.text("do"),
        initial_delay=inner.number("initial_delay"),
        max_delay=inner.number("max_delay"),
        max_wait=inner.number("max_wait"),
    )
    inner.end()
    return spec

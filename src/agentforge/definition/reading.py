"""Second pass: trees to specs. Reports values of the wrong kind; whether they make sense is checked later."""

from posixpath import basename, splitext

from msgspec.structs import replace

from agentforge.definition.diagnostics import Report
from agentforge.definition.fields import Fields, as_count, as_data, as_text
from agentforge.definition.source import SourceText
from agentforge.definition.spec import (
    Leftover,
    NodeSpec,
    PipelineSpec,
    ProviderSpec,
    RetrySpec,
    StageSpec,
    TerminationSpec,
    WorkSpec,
    Written,
)
from agentforge.definition.tree import Keyed, Listed, Scalar, Tree, kind_of

UNNAMED = "pipeline"
# How the older form of stages spells its terminations.
_COMPLETIONS = {"beads-empty": "queue", "plateau": "judgment", "fixed-n": "fixed"}
_OTHER_KINDS = ("parallel", "pipeline", "executor")


def read_pipeline(source: SourceText, tree: Keyed, report: Report) -> PipelineSpec:
    return _Reading(report).pipeline(source, tree)


def read_stage(source: SourceText, tree: Keyed, report: Report) -> StageSpec:
    return _Reading(report).stage(source, tree)


class _Reading:
    """Reads one file, gathering the keys that nothing asks for."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._leftovers: list[Leftover] = []

    def pipeline(self, source: SourceText, tree: Keyed) -> PipelineSpec:
        fields = Fields(tree, "pipeline", self._report)
        name = fields.text("name")
        description = fields.text("description")
        commands = fields.texts("commands")
        top = self._defaults(fields)
        nodes = self._nodes(fields)
        spec = PipelineSpec(
            source=source,
            name=name.value if name else _stem(source.file),
            nodes=nodes,
            levels=(self._default_level(fields), top),
            description=description.value if description else None,
            inputs=self._input_list(fields),
            commands=commands,
            max_runtime=self._guardrails(fields),
            tmux=fields.flag("tmux", default=True),
        )
        fields.skip("version")
        self._leftovers += fields.leftovers()
        return replace(spec, leftovers=tuple(self._leftovers))

    def stage(self, source: SourceText, tree: Keyed) -> StageSpec:
        fields = Fields(tree, "stage", self._report)
        name = fields.text("name")
        work = self._work(fields)
        fields.skip("version", "progress")
        self._leftovers += fields.leftovers()
        return StageSpec(source, work, name, tuple(self._leftovers))

    def _nodes(self, fields: Fields) -> tuple[NodeSpec, ...]:
        key, old = fields.key("nodes"), fields.key("stages")
        if old and key:
            self._report.error(
                "conflict", old.at, "the pipeline has both `nodes` and `stages`", "keep `nodes`"
            )
        elif old:
            self._report.warning("deprecated-key", old.at, "`stages` is deprecated", "rename it to `nodes`")
        current, former = fields.tree("nodes"), fields.tree("stages")
        tree = former if key is None else current
        at = (key or old or fields).at
        if tree is None or (isinstance(tree, Listed) and not tree.items):
            self._report.error(
                "empty-pipeline", at, "empty pipeline: it has no nodes", hint="add `- id: …` with `stage: …`"
            )
            return ()
        if not isinstance(tree, Listed):
            self._report.error("bad-type", tree.at, f"`nodes` must be a list, not {kind_of(tree)}")
            return ()
        return tuple(node for item in tree.items if (node := self._node(item)))

    def _node(self, tree: Tree) -> NodeSpec | None:
        if not isinstance(tree, Keyed):
            hint = f"write `- stage: {tree.text}`" if isinstance(tree, Scalar) and tree.text else ""
            self._report.error("bad-type", tree.at, f"a node must be a mapping, not {kind_of(tree)}", hint)
            return None
        fields = Fields(tree, "node", self._report)
        node_id, name = fields.text("id"), fields.text("name")
        stage, loop = fields.text("stage"), fields.text("loop")
        work = self._work(fields)
        inputs = self._node_inputs(fields)
        left = fields.leftovers()
        self._leftovers += left
        is_stage = not any(leftover.key.text in _OTHER_KINDS for leftover in left)
        return NodeSpec(tree.at, node_id or name, stage or loop, work, inputs, is_stage)

    def _node_inputs(self, fields: Fields) -> dict[str, object]:
        keyed = fields.keyed("inputs")
        if keyed is None:
            return {}
        inputs = Fields(keyed, "inputs", self._report)
        found: dict[str, object] = {}
        for name in ("from_initial", "from_previous_iterations"):
            tree = inputs.tree(name)
            if tree is not None:
                found[name] = as_data(tree, f"`inputs.{name}`", self._report)
        self._leftovers += inputs.leftovers()
        return found

    def _input_list(self, fields: Fields) -> tuple[Written[str], ...] | None:
        tree = fields.tree("inputs")
        if tree is None:
            return None
        items = tree.items if isinstance(tree, Listed) else (tree,)
        found = (as_text(item, "an input", self._report) for item in items)
        return tuple(item for item in found if item)

    def _default_level(self, fields: Fields) -> WorkSpec:
        keyed = fields.keyed("defaults")
        if keyed is None:
            return WorkSpec()
        defaults = Fields(keyed, "defaults", self._report)
        work = self._defaults(defaults)
        self._leftovers += defaults.leftovers()
        return work

    def _defaults(self, fields: Fields) -> WorkSpec:
        """What a pipeline may say for all of its nodes."""
        return WorkSpec(
            provider=self._provider(fields),
            delay=fields.number("delay"),
            timeout=fields.number("timeout"),
            idle_timeout=fields.number("idle_timeout"),
            retry=self._retry(fields),
        )

    def _work(self, fields: Fields) -> WorkSpec:
        termination, runs = self._termination(fields)
        return WorkSpec(
            provider=self._provider(fields),
            description=fields.text("description"),
            prompt=fields.text("prompt"),
            context=fields.text("context"),
            output_path=fields.text("output_path"),
            commands=fields.texts("commands"),
            runs=runs,
            termination=termination,
            delay=fields.number("delay"),
            timeout=fields.number("timeout"),
            idle_timeout=fields.number("idle_timeout"),
            retry=self._retry(fields),
            max_runtime=self._guardrails(fields),
        )

    def _provider(self, fields: Fields) -> ProviderSpec | None:
        """`provider: claude`, or a mapping with `type` whose other keys are the provider's own."""
        tree, sibling = fields.tree("provider"), fields.keyed("provider_config")
        model = fields.text("model")
        config = self._config(sibling) if sibling else {}
        chosen: Written[str] | None = None
        if isinstance(tree, Keyed):
            inner = Fields(tree, "provider", self._report)
            chosen = inner.text("type") or inner.text("name")
            model = model or inner.text("model")
            config = self._config(tree, but=("type", "name", "model")) | config
            if chosen is None and inner.tree("type") is None:
                self._report.error(
                    "missing-key", tree.at, "`provider` has no `type`", hint="add `type: claude` or another"
                )
        elif isinstance(tree, Listed):
            self._report.error("unsupported", tree.at, "not supported yet: provider as a list")
        elif tree is not None:
            chosen = as_text(tree, "`provider`", self._report)
        return ProviderSpec(chosen, model, config) if chosen or model or config else None

    def _config(self, keyed: Keyed, but: tuple[str, ...] = ()) -> dict[str, object]:
        return {
            entry.key.text: as_data(entry.value, f"`{entry.key.text}`", self._report)
            for entry in keyed.entries
            if entry.key.text not in but
        }

    def _termination(self, fields: Fields) -> tuple[TerminationSpec | None, Written[int] | None]:
        """`termination`, else a mapping under `runs`, else the older `completion`; and the number of runs."""
        keyed, runs = fields.keyed("termination"), fields.tree("runs")
        completion = fields.text("completion")
        fields.skip("consensus", "min_iterations")
        if keyed is None and isinstance(runs, Keyed):
            keyed, runs = runs, None
        count = as_count(runs, "`runs`", self._report) if runs else None
        if keyed:
            return self._termination_mapping(keyed), count
        if completion:
            kind = _COMPLETIONS.get(completion.value, completion.value)
            return TerminationSpec(completion.at, Written(kind, completion.at)), count
        return None, count

    def _termination_mapping(self, keyed: Keyed) -> TerminationSpec:
        fields = Fields(keyed, "termination", self._report)
        spec = TerminationSpec(keyed.at, fields.text("type"), fields.count("max"), fields.count("iterations"))
        # The settings of other types may lie here when a node turns a stage's type into `fixed`.
        fields.skip("min_iterations", "consensus", "command")
        self._leftovers += fields.leftovers()
        return spec

    def _retry(self, fields: Fields) -> RetrySpec | None:
        keyed = fields.keyed("retry")
        if keyed is None:
            return None
        retry = Fields(keyed, "retry", self._report)
        spec = RetrySpec(
            max_attempts=retry.count("max_attempts"),
            initial_delay=retry.number("initial_delay"),
            multiplier=retry.number("multiplier"),
            max_delay=retry.number("max_delay"),
        )
        self._leftovers += retry.leftovers()
        return spec

    def _guardrails(self, fields: Fields) -> Written[float] | None:
        keyed = fields.keyed("guardrails")
        if keyed is None:
            return None
        guardrails = Fields(keyed, "guardrails", self._report)
        limit = guardrails.number("max_runtime_seconds")
        self._leftovers += guardrails.leftovers()
        return limit


def _stem(file: str) -> str:
    return splitext(basename(file))[0] if not file.startswith("<") else UNNAMED

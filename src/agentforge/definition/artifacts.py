"""The pass between `link` and `validate`: which artifacts of earlier stages a stage takes fields and items
from."""

# A stage gets the artifacts of all stages before it in the order of the file, those of other pipelines
# included, but none of other branches: each branch of a block has its own. A field that a stage needs must be
# in a schema of these stages. If none of them leaves an artifact, only the one that the run is started with
# can have the field, and later stages may need it, too.
#
# Items are taken from one stage that is named, as in `inputs.from`: an earlier stage of the same branch, or
# an earlier node of the same pipeline.

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.link import Links
from agentforge.definition.precedence import merged
from agentforge.definition.read.work_keys import ITEMS
from agentforge.definition.report import Report
from agentforge.definition.schemas import Schemas, fields_of, is_closed, types_of
from agentforge.definition.specs import (
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    ids_of,
)
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.artifact import ENGINE_KEYS, ArtifactRule
from agentforge.model.diagnostic import SourcePlace, choice, is_misspelled
from agentforge.model.plan import ArtifactSource, InputSources
from agentforge.model.plan_limits import is_field_name

INITIAL = "initial"
"""Names the artifact that the run was started with."""
_A_BLOCK = "is a parallel block, whose branches have artifacts of their own"


class _Left(Struct, frozen=True):
    """What a stage leaves to those after it."""

    id: str
    source: ArtifactSource
    rule: ArtifactRule | None
    has_artifact: bool
    """Also if its rule is invalid."""
    is_found: bool
    """False if its stage.yaml, which may have the rule, can't be read."""
    over_items: bool


class _Input(Struct):
    """What the artifacts of the stages before have."""

    fields: set[str]
    exists: bool = False
    is_open: bool = False
    """Whether there may be any field."""

    def copy(self) -> "_Input":
        return _Input({*self.fields}, self.exists, self.is_open)

    def add(self, left: _Left) -> None:
        if not left.has_artifact and left.is_found:
            return
        self.exists = True
        if left.over_items:
            self.fields.add(left.id)
        elif left.rule:
            named = fields_of(left.rule.schema)
            self.fields.update(named, left.rule.fill)
            self.is_open |= not named and not is_closed(left.rule.schema)
        else:
            self.is_open = True


class _Here(Struct, frozen=True):
    """A stage among the others."""

    path: str
    input: _Input
    nodes: Mapping[str, _Left | str]
    """Those before it, by id; of one that items can't be taken from, why not, or an empty text if the report
    has an error about it."""
    ids: frozenset[str]
    """Of all nodes that it could name."""
    branch: str = ""


class Supplied(Struct, frozen=True):
    links: Links
    places: frozenset[SourcePlace]
    """Of the nodes that get an artifact."""


def supply(pipeline: ResolvedPipeline, links: Links, schemas: Schemas, report: Report) -> Supplied:
    supplying = _Supplying(links, schemas, report)
    supplying.pipeline(pipeline, "", _Input(set()), ())
    return Supplied(supplying.links, frozenset(supplying.places))


class _Supplying:
    def __init__(self, links: Links, schemas: Schemas, report: Report) -> None:
        self.links = dict(links)
        self.places: set[SourcePlace] = set()
        self._schemas = schemas
        self._report = report
        self._initial = set[str]()
        """Fields of the artifact that the run is started with."""

    def pipeline(
        self, pipeline: ResolvedPipeline, prefix: str, given: _Input, outer: Sequence[Written[str]]
    ) -> _Left | str:
        """What its last node leaves; `given` then has what all of them do. `outer`: what the nodes around
        it need, for its first stage."""
        nodes: dict[str, _Left | str] = {}
        ids = frozenset(ids_of(pipeline.spec.nodes))
        left: _Left | str = ""
        for index, node in enumerate(pipeline.nodes):
            spec, path = pipeline.spec.nodes[index], f"{prefix}{index}"
            around = outer if index == 0 else ()
            needed, here = (*around, *spec.inputs.artifact), _Here(path, given, nodes, ids)
            match node:
                case ResolvedBlock():
                    self._block(node, here, around)
                    left = _A_BLOCK
                case ResolvedNested():
                    left = self.pipeline(node.pipeline, f"{path}.", given, needed)
                case ResolvedStage():
                    left = self._stage(node, here, needed)
                    given.add(left)
                case None:  # exhaustive
                    left = ""
            if spec.id:
                nodes[spec.id.value] = left
        return left

    def _block(self, block: ResolvedBlock, outer: _Here, around: Sequence[Written[str]]) -> None:
        ids = outer.ids.union(ids_of(block.block.stages))
        for branch in block.block.branches:
            given, nodes = outer.input.copy(), dict(outer.nodes)
            name = branch.name.value if branch.name else ""
            for position, stage in enumerate(block.stages):
                if stage:
                    levels = (stage.spec.inputs, branch.inputs, block.spec.inputs)
                    own = next((level.artifact for level in levels if level.artifact), ())
                    needed = (*(around if position == 0 else ()), *own)
                    here = _Here(f"{outer.path}.{position}", given, nodes, ids, name)
                    left = self._stage(stage, here, needed)
                    given.add(left)
                    nodes[left.id] = left

    def _stage(self, stage: ResolvedStage, here: _Here, needed: Sequence[Written[str]]) -> _Left:
        over_items, items = self._items(stage, here)
        needed = (*needed, *(stage.stage.needs if stage.stage else ()))
        for field in needed:
            self._need(field, here.input)
        if here.input.exists or needed or items:
            self.places.add(stage.spec.at)
        if needed or items:
            key, fields = (here.path, here.branch), dict.fromkeys(field.value for field in needed)
            sources = self.links.get(key, InputSources())
            self.links[key] = replace(sources, artifact=tuple(fields), items=items)
        self._frozen(stage)
        return _Left(
            id=stage.spec.id.value if stage.spec.id else "",
            source=ArtifactSource(here.path, here.branch or None),
            rule=self._schemas.rule(stage),
            has_artifact=merged(stage, "artifact") is not None,
            is_found=stage.is_found,
            over_items=over_items,
        )

    def _frozen(self, stage: ResolvedStage) -> None:
        """The fields with the files that it freezes are its own."""
        rule = self._schemas.rule(stage)
        named = {*fields_of(rule.schema)} if rule else set[str]()
        for field in merged(stage, "freeze") or ():
            if merged(stage, "artifact") is None and stage.is_found:
                message = "`freeze` names a field of the artifact, and the stage leaves none"
                self._report.error("no-artifact", field.at, message, "add `artifact: …`")
            elif rule and field.value not in named and (named or is_closed(rule.schema)):
                message = f"the artifact of the stage has no field {shown(field.value)}"
                self._report.error("unknown-field", field.at, message, choice(field.value, "fields", named))

    def _need(self, field: Written[str], given: _Input) -> None:
        if not given.exists:
            self._initial.add(field.value)
        known = {*given.fields, *self._initial, *ENGINE_KEYS}
        if field.value not in known and not given.is_open:
            message = f"no earlier artifact has the field {shown(field.value)}"
            self._report.error("unknown-field", field.at, message, choice(field.value, "fields", known))

    def _items(self, stage: ResolvedStage, here: _Here) -> tuple[bool, ArtifactSource | None]:
        """Whether the stage is over items, and whose artifact has them."""
        termination = merged(stage, "termination")
        kind, source = (termination.get("type"), termination.get("from")) if termination else (None, None)
        if kind is None or kind.value != ITEMS:
            if source and kind is None and stage.is_found:
                message = "`termination.from` has no effect without a type"
                self._report.error("missing-key", source.at, message, "add `type: items`")
            return False, None
        if source is None:
            if stage.is_found:
                message, hint = "a stage over items has no `from`", "add the list: `from: NODE.FIELD`"
                self._report.error("missing-key", kind.at, message, hint)
            return True, None
        return True, self._source(source, here)

    def _source(self, source: Written[str], here: _Here) -> ArtifactSource | None:
        node, _, field = source.value.rpartition(".")
        left = here.nodes.get(node)
        if not node or not is_field_name(field):
            message = f"`termination.from` must be NODE.FIELD, got {shown(source.value)}"
            meant = here.nodes.get(source.value)
            lists = _lists(meant.rule) if isinstance(meant, _Left) and meant.rule else []
            hint = f"for example `{source.value}.{lists[0]}`" if lists else "for example `plan.steps`"
            self._report.error("bad-value", source.at, message, hint)
        elif node == INITIAL and INITIAL in here.ids:
            message = f"`{INITIAL}` is a node, and also the artifact that a run is started with"
            self._report.error("conflict", source.at, message, "give the node another id")
        elif node == INITIAL:
            self._initial.add(field)
            return ArtifactSource("")
        elif isinstance(left, _Left):
            return self._list(left, field, source)
        elif left:
            hint = "take the items from a stage that merges the artifacts, or in the block itself"
            self._report.error("wrong-kind", source.at, f"{shown(node)} {left}", hint)
        elif node in here.ids and left is None:
            message = f"{shown(node)} does not run before this stage"
            self._report.error("later-node", source.at, message, "take the items from an earlier stage")
        elif left is None:
            known = [id for id, one in here.nodes.items() if isinstance(one, _Left) and one.has_artifact]
            hint = choice(node, "nodes", (*known, INITIAL))
            self._report.error("unknown-node", source.at, f"no earlier node has the id {shown(node)}", hint)
        return None

    def _list(self, left: _Left, field: str, source: Written[str]) -> ArtifactSource | None:
        node, rule = shown(left.id), left.rule
        if not left.has_artifact:
            if left.is_found:
                hint = f"add `artifact: …` to {node}, with a schema that has the list"
                self._report.error("no-artifact", source.at, f"{node} leaves no artifact", hint)
            return None
        if left.over_items:
            message = f"{node} is itself over items: it leaves an artifact for each of them"
            self._report.error("wrong-kind", source.at, message, "take the items from another stage")
        elif rule:
            named, lists = fields_of(rule.schema), _lists(rule)
            hint = choice(field, "lists", lists)
            if field in rule.fill or (field in named and field not in lists):
                message = f"{shown(field)} of {node} is not a list"
                self._report.error("not-a-list", source.at, message, hint)
            elif field not in named and is_closed(rule.schema):
                message = f"the artifact of {node} has no field {shown(field)}"
                self._report.error("unknown-field", source.at, message, hint)
            elif field not in named and is_misspelled(field, lists):
                message = f"the schema of {node} doesn't name the field {shown(field)}"
                self._report.warning("unknown-field", source.at, message, hint)
        return left.source


def _lists(rule: ArtifactRule) -> list[str]:
    """The fields that can be lists by the schema."""

    def is_list(one: object) -> bool:
        types = types_of(one, rule.schema)
        return types is None or "array" in types

    return [name for name, schemas in fields_of(rule.schema).items() if any(map(is_list, schemas))]

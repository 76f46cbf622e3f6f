"""Reading who does the work: a provider by name, with settings of its own, or a list of which the next takes
over when one can't work."""

from msgspec.structs import replace

from agentforge.definition.check_secrets import check_settings
from agentforge.definition.fields import Fields, as_data, as_text
from agentforge.definition.spec import ProviderSpec
from agentforge.definition.tree import Keyed, Listed, Tree


def read_provider(fields: Fields) -> ProviderSpec | None:
    """What `provider` says, and beside it `model` and `provider_config`: of a list, for its first."""
    tree, sibling = fields.tree("provider"), fields.keyed("provider_config")
    model = fields.text("model")
    config = read_config(fields, sibling) if sibling else {}
    first = _provider_list(fields, tree) if isinstance(tree, Listed) else _one(fields, tree)
    if first is None and not (model or config):
        return None
    named = first or ProviderSpec()
    return replace(named, model=model or named.model, config=named.config | config)


def read_config(fields: Fields, keyed: Keyed, but: tuple[str, ...] = ()) -> dict[str, object]:
    """A provider's own settings, passed on as they stand."""
    check_settings(keyed, fields.report)
    return {
        entry.key.text: as_data(entry.value, f"`{entry.key.text}`", fields.report)
        for entry in keyed.entries
        if entry.key.text not in but
    }


def _provider_list(fields: Fields, listed: Listed) -> ProviderSpec | None:
    if not listed.items:
        hint = "name at least one, as in `[claude, codex]`"
        fields.report.error("missing-key", listed.at, "`provider` is an empty list", hint)
        return None
    read = [_one(fields, item) for item in listed.items]
    first, *others = (spec or ProviderSpec() for spec in read)
    return replace(first, fallbacks=tuple(spec for spec in others if spec.type))


def _one(fields: Fields, tree: Tree | None) -> ProviderSpec | None:
    """`claude`, or a mapping with `type` whose other keys are the provider's own."""
    if tree is None:
        return None
    if not isinstance(tree, Keyed):
        name = as_text(tree, "`provider`", fields.report)
        return ProviderSpec(name) if name else None
    inner = fields.inside(tree, "provider")
    chosen = inner.text("type") or inner.text("name")
    if chosen is None and inner.tree("type") is None:
        hint = "add `type: claude` or another"
        fields.report.error("missing-key", tree.at, "`provider` has no `type`", hint)
    config = read_config(fields, tree, but=("type", "name", "model"))
    return ProviderSpec(chosen, inner.text("model"), config)

"""Reading what an agent is confined by: `sandbox: bwrap`, or a mapping with `type` and what it may reach."""

from agentforge.definition.fields import Fields, as_text
from agentforge.definition.spec import SandboxSpec, Written
from agentforge.definition.tree import Keyed, Scalar, kind_of

_SWITCH = {"on": True, "off": False}


def read_sandbox(fields: Fields) -> SandboxSpec | None:
    tree = fields.tree("sandbox")
    if tree is None:
        return None
    if not isinstance(tree, Keyed):
        return SandboxSpec(tree.at, as_text(tree, "`sandbox`", fields.report))
    inner = fields.inside(tree, "sandbox")
    spec = SandboxSpec(
        tree.at,
        type=inner.text("type"),
        network=_network(inner),
        image=inner.text("image"),
        writable=inner.some_texts("writable"),
        hidden=inner.some_texts("hidden"),
    )
    inner.end()
    if spec.type is None and inner.tree("type") is None:
        hint = "add `type: bwrap` or `type: docker`"
        fields.report.error("missing-key", tree.at, "`sandbox` has no `type`", hint)
    return spec


def _network(fields: Fields) -> Written[bool] | None:
    """`on` and `off`, which are plain words here, or true and false."""
    tree = fields.tree("network")
    if isinstance(tree, Scalar) and tree.text in _SWITCH:
        return Written(_SWITCH[tree.text], tree.at)
    if isinstance(tree, Scalar) and isinstance(tree.value, bool):
        return Written(tree.value, tree.at)
    if tree is not None:
        message = f"`network` must be on or off, not {kind_of(tree)}"
        fields.report.error("bad-type", tree.at, message)
    return None

"""A pipeline whose text was kept elsewhere is compiled as if it still lay in its place."""

from agentforge.definition.compiler import compile_pipeline, compile_text
from agentforge.definition.resolve import available_pipelines

from .world import TextWorld, stage

INNER = "name: inner\nnodes: [{id: a, stage: s}]\n"
OUTER = "name: outer\nnodes: [{id: in, pipeline: inner}]\n"


def test_kept_text_gives_the_plan_of_the_file() -> None:
    world = TextWorld({"flows/outer.yaml": OUTER, "flows/inner.yaml": INNER, **stage()})
    there = compile_pipeline(world, "flows/outer.yaml", "x").plan
    del world.files["/project/flows/outer.yaml"]
    assert compile_text(world, "flows/outer.yaml", OUTER, "x").plan == there


class Unreadable(TextWorld):
    def read(self, path: str) -> str | None:
        return None if path.endswith("secret.yaml") else super().read(path)


def test_pipeline_that_cannot_be_read_is_not_listed() -> None:
    folder = ".claude/pipelines"
    world = Unreadable({f"{folder}/inner.yaml": INNER, f"{folder}/secret.yaml": OUTER})
    assert [found.name for found in available_pipelines(world)] == ["inner"]

"""Which YAML files of the project's folder are pipelines."""

import pytest
from tests.definition.world import PROJECT, TextWorld, stage

from agentforge.definition.root_files import (
    EMPTY,
    MAX_FILES,
    NO_NODE_OF_OURS,
    NO_NODES,
    NOT_YAML,
    TOO_MANY,
    RootFiles,
    root_files,
)
from agentforge.model.errors import StorageFailed

PIPELINES = {
    "a stage": "nodes:\n  - {id: a, stage: tidy}\n",
    "a prompt": "name: x\nnodes:\n  - prompt: do it\n",
    "the deprecated key": "stages:\n  - {name: a, stage: tidy}\n",
    "json": '{\n"name": "x",\n"nodes": [{"id": "a", "prompt": "x"}]}',
    "a misspelt key": "nodes:\n  - {id: a, stagee: tidy}\n",
    "one node that is not a mapping": "nodes:\n  - tidy\n  - {stage: tidy}\n",
    "wrong syntax": "name: x\nnodes:\n  - {id: a\n",
    "a tab": "nodes:\n\t- id: a\n",
    "a tab at the start": "name: x\n\tnodes:\n  - id: a\n",
    "nodez": "nodez:\n  - {id: a, prompt: x}\n",
    "node": "node:\n  - {id: a, prompt: x}\n",
    "capitals": "Nodes:\n  - {id: a, prompt: x}\n",
    "misspelt and wrong syntax": "nodez:\n  - {id: a\n",
    "another key for nodes": "name: x\nsteps:\n  - {id: a, prompt: x}\n",
    "on one line": "{name: x, nodes: [{id: a}]}",
}
OTHERS = {
    "no nodes of ours": "node:\n  - {role: worker}\n",
    "rules": "name: x\nrules:\n  - {id: a}\n",
    "an agent of another tool": "name: x\nllm: gpt\ntasks:\n  - {prompt: x}\n",
    "compose": "services:\n  web: {image: nginx}\n",
    "pre-commit": "repos:\n  - repo: local\n    hooks: [{id: ruff, stages: [pre-push]}]\n",
    "gitlab": "stages: [build, test]\nbuild: {stage: build, script: [make]}\n",
    "azure": "stages:\n  - stage: build\n    jobs: [{job: a}]\n",
    "dvc": "stages:\n  train: {cmd: python train.py}\n",
    "broken compose": "services:\n  web: {image\n",
    "several documents": "kind: Pod\n---\nkind: Pod\nspec: {nodes: [a]}\n",
    "a list": "- nodes: 1\n",
    "a list at the side of a name": "name: x\n- nodes: 1\n",
    "empty": "",
    "spaces": " \n\n",
}
REASONS = {"empty": EMPTY, "spaces": EMPTY, "a list at the side of a name": NOT_YAML}
WITHOUT_OUR_NODES = {
    "kind": "kind: Cluster\nnodes:\n  - role: control-plane\n",
    "rke": "nodes:\n  - {address: 10.0.0.1, user: ubuntu}\n",
    "names": "nodes: [plan, build]\n",
    "no list": "nodes: {a: {stage: tidy}}\n",
}


def found(text: str, name: str = "x.yaml") -> RootFiles:
    return root_files(TextWorld({name: text, ".claude/pipelines/other.yaml": "nodes: []", **stage()}))


@pytest.mark.parametrize("text", PIPELINES.values(), ids=PIPELINES.keys())
def test_pipelines(text: str) -> None:
    assert found(text) == RootFiles(pipelines=("x.yaml",))
    assert found(text, "x.yml") == RootFiles(pipelines=("x.yml",))
    assert found(text, "x.txt") == found(text, "deeper/x.yaml") == RootFiles()


@pytest.mark.parametrize("what", OTHERS)
def test_files_of_other_tools_are_named(what: str) -> None:
    assert found(OTHERS[what]) == RootFiles(others={"x.yaml": REASONS.get(what, NO_NODES)})


@pytest.mark.parametrize("text", WITHOUT_OUR_NODES.values(), ids=WITHOUT_OUR_NODES.keys())
def test_nodes_that_no_pipeline_has_are_named(text: str) -> None:
    assert found(text) == RootFiles(others={"x.yaml": NO_NODE_OF_OURS})


def test_a_folder_is_not_a_file() -> None:
    assert root_files(TextWorld({"x.yaml/y.yaml": "nodes: []"})) == RootFiles()


def test_the_number_of_files_is_limited() -> None:
    names = [f"p{number:04}.yaml" for number in range(MAX_FILES + 1)]
    read = root_files(TextWorld(dict.fromkeys(names, "nodes: [{id: a}]")))
    assert read == RootFiles(pipelines=tuple(names[:-1]), others={names[-1]: TOO_MANY})


def test_a_file_that_cannot_be_read_is_named() -> None:
    class Closed(TextWorld):
        def read(self, path: str) -> str | None:
            if path == f"{PROJECT}/closed.yaml":
                raise StorageFailed("closed")
            return super().read(path)

    world = Closed({"closed.yaml": "", "open.yaml": PIPELINES["a prompt"]})
    assert root_files(world) == RootFiles(("open.yaml",), {"closed.yaml": "closed"})

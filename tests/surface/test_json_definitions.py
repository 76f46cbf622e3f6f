"""docs/json-output.md: the keys of commands about definitions, this machine and the program."""

import shutil

from tests.surface.json_agents import block, describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project

REPORT = {"parse": "junit", "report": "report.xml"}
CHECK = {"name": "test", "run": "make test", "expect": "fail", "timeout": 60, "at": "start", **REPORT}
FILE = {"path": "a.md", "contains": "a", "absent": "b", "heading": "c"}
HOOKS = {"stage_end": [{"id": "note", "stage": "plan", "action": "script", "script": "true"}]}
EXAMPLES: Examples = {
    ("lint", "lint report"): ["lint"],
    ("dry-run", "dry run"): ["dry-run", "pipeline", "missing.yaml"],
    ("graph", "graph"): ["graph", "whole.yaml"],
    ("stages", "stages"): ["stages"],
    ("pipelines", "stages"): ["pipelines"],
    ("providers", "provider"): ["providers"],
    ("schema", "schema"): ["schema"],
    ("config init", "config init"): ["config", "init"],
    ("config set", "config set"): ["config", "set", "commands.test", "make test"],
    ("config get", "setting"): ["config", "get", "commands"],
    ("config show", "setting"): ["config", "show"],
    ("config validate", "settings checkup"): ["config", "validate"],
    ("init", "created project"): ["init"],
    ("doctor", "doctor"): ["doctor"],
    ("completion", "completion"): ["completion", "fish"],
    ("migrate check", "migration report"): ["migrate", "check"],
    ("version", "version"): ["version"],
}
SHOWN = (
    *(
        "lint report",
        "diagnostic",
        "place",
        "graph",
        "graph node",
        "dry run",
        "plan",
        "worst case",
        "percentiles",
        "stages",
        "provider",
    ),
    *("setting", "settings checkup", "config init", "config set"),
    *("schema", "created project", "doctor", "completion", "migration report", "version"),
)


def test_keys_of_definitions_are_those_of_the_page(project: Project) -> None:
    describe_provider(project, "mine", WRITE_RESULT)
    rules = [{"name": "notes", "file": FILE}, {"name": "only", "scope": ["*.md"]}]
    rules += [{"name": "new", "run": "ruff", "regressions": True}]
    routed = stage("build", checks=[{**CHECK, "needs": "network"}, *rules], on={"fail": "plan"})
    write_pipeline(project, "whole", stage("plan"), routed, block("both", "mine"), hooks=HOOKS)
    named = project.root / ".claude" / "pipelines"
    named.mkdir(parents=True)
    shutil.copy(project.root / "whole.yaml", named)
    (project.root / "compose.yaml").write_text("services: {}\n")
    describe_provider(project, "removed", WRITE_RESULT)
    (project.home / "removed").unlink()
    describe_provider(project, "priced", f"{WRITE_RESULT}; echo '{{\"cost\": 0.25}}'")
    with (project.root / ".agentforge/providers/priced.yaml").open("a") as description:
        description.write("output: json_lines\nfields: {cost: cost}\n")
    write_pipeline(project, "missing", {**stage("a"), "provider": "priced"})
    assert project.call("run", "-p", "missing.yaml").code == 0
    write_pipeline(project, "missing", {**stage("a"), "provider": "removed", "max_iteration_cost_usd": 1})
    (project.root / ".agent").mkdir()
    (project.root / ".agent/config.yml").write_text("project: {name: x}\n")
    project.stage("bad", "provider: mock\ntermination: {type: fixed, iterations: -1}\n")
    calls = Calls(project)
    calls.call_all(EXAMPLES)
    assert calls.problems(SHOWN) == []

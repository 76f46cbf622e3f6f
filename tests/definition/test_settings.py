"""Settings files: what is read, what is wrong with it, and what a plan takes of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from agentforge.definition.compiler import compile_pipeline, compile_stage, compile_text
from agentforge.definition.machine import Machine
from agentforge.definition.read.file_keys import settings_schema
from agentforge.definition.report import Report
from agentforge.definition.settings import Settings, parts_of, read_settings
from agentforge.model.diagnostic import ARGUMENTS
from agentforge.model.errors import DefinitionError, StorageFailed
from agentforge.model.plan import Limits, Overrides, ProviderChoice, Route, StageNode

from .world import TextWorld, found, only_node, plan, stage, where

OWN = ".agentforge/config/settings.yaml"
OTHER = ".agent/config.yml"
USERS = "/home/me/.config/agentforge/settings.yaml"
NODE = "nodes: [{id: n, stage: s}]\n"
ORCHESTRATED = "settings: orchestration\nnodes: [{id: n, stage: s, retry: {max_attempts: 9}}]\n"


def settings(text: str, **environment: str) -> Settings:
    report = Report()
    read = read_settings(TextWorld({OWN: text}, **environment), report)
    assert report.diagnostics == ()
    return read


def problems(text: str, other: str = "", **environment: str) -> list[str]:
    report = Report()
    read_settings(TextWorld({OWN: text, OTHER: other}, **environment), report)
    return [f"{one.severity} {where(one)}" for one in report.diagnostics]


# -- reading


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n# nothing\n", "version: 1\n"])
def test_files_that_say_nothing(text: str) -> None:
    assert settings(text).orchestration == {}
    assert settings(text).pipeline is None


@pytest.mark.requirement("FR-033")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", ["error not-a-mapping 1:1"]),
        ("a: [\n", ["error syntax 2:1"]),
        ("project: {name: x}\nintegrations: {}\n", ["warning unknown-key 1:1", "warning unknown-key 2:1"]),
        ("llm: {provider: api, max_tokens: 8}\n", ["warning unknown-key 1:22"]),
        ("comands: {test: x}\n", ["error unknown-key 1:1"]),
        ("provider: codex\nllm: {provider: claude}\n", ["error conflict 2:1"]),
        ("pipeline: {supervised_by_default: true, auto_commit: true}\n", ["warning no-effect 1:54"]),
        ("network: off\nsandbox: {type: vm}\n", ["error bad-value 1:10", "error bad-value 2:17"]),
        ("orchestration: 3\n", ["error bad-type 1:16"]),
        ("orchestration: {cycle_limit: 11}\n", ["error bad-value 1:30"]),
        ("orchestration: {cycle_limt: 1}\n", ["error unknown-key 1:17"]),
        ("orchestration: {step_retry_limit: -1, stage_retry_limit: 11}\n", ["error bad-value 1:35"] * 1
         + ["error bad-value 1:58"]),
        ("orchestration: {plan_timeout: 0, b_timeout: null}\n", ["error bad-value 1:31"]),
        ("orchestration: {token_budget: [1]}\n", ["error bad-type 1:31"]),
        ("orchestration: {token_budget: {total: 0, a: 101, b: null, x-c: q}}\n",
         ["error bad-value 1:39", "error bad-value 1:45", "error bad-value 1:45"]),
        ("orchestration: {token_budget: {a: 60, b: 60}}\n", ["error bad-value 1:42"]),
        ("orchestration: {stages: {a: {timeout: x, parallel_steps: true}}}\n",
         ["error bad-type 1:39", "error unsupported 1:58"]),
        ("orchestration: {stages: {a: {parallel_steps: false}}, token_budget: {}}\n", []),
        ("model: ${MODEL}\nproject: ${NONE}\n", ["error unset-variable 1:8", "warning unknown-key 2:1"]),
        ("notify: 'https://x.example/${API_TOKEN}'\n", ["error secret-in-file 1:9"]),
        ("limits: {cost_usd: 0, tokens: -1, daily_usd: .nan, warn_usd: .inf}\n",
         ["error bad-value 1:20", "error bad-value 1:31", "error bad-type 1:46", "error bad-type 1:62"]),
        ("cost: {max_per_pipeline_usd: 0, max_daily_usd: -.inf, warn_threshold_usd: ten}\n",
         ["error bad-value 1:30", "error bad-type 1:48", "error bad-type 1:75"]),
        ("limits: {tokens: 1.5, cost_usd: true, runtime: 5}\n",
         ["error bad-type 1:18", "error bad-type 1:33", "error unknown-key 1:39"]),
        ("limits: {daily_usd: 5}\ncost: {max_daily_usd: 5}\n", ["error conflict 2:1"]),
        ("limits: 5\n", ["error bad-type 1:9"]),
    ],
)  # fmt: skip
def test_mistakes_have_a_place(text: str, expected: list[str]) -> None:
    assert problems(text, API_TOKEN="x" * 20) == expected


def test_all_mistakes_are_reported_with_those_of_the_pipeline() -> None:
    diagnostics = found("nodes: [{id: n, stage: s, timeout: x}]", {OWN: "network: no\n"})
    assert {(one.place.file, one.code) for one in diagnostics} == {
        ("p.yaml", "bad-type"),
        (OWN, "bad-value"),
    }


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("provider: codex\n", "provider: codex\n", ["error conflict 1:1"]),
        ("provider: codex\n", "llm: {provider: codex}\n", ["error conflict 1:7"]),
        ("pipeline: a\n", "pipeline: {default_type: b}\n", ["error conflict 1:12"]),
        ("commands: {test: a}\n", "commands: {lint: b}\n", []),
        ("commands: {test: a}\n", "commands: {lint: b, test: c}\n", ["error conflict 1:21"]),
        ("orchestration: {cycle_limit: 2}\n", "orchestration: {cycle_limit: 2}\n", ["error conflict 1:17"]),
        ("limits: {daily_usd: 2}\n", "limits: {cost_usd: 2}\ncost: {warn_threshold_usd: 1}\n", []),
        ("limits: {daily_usd: 2}\n", "cost: {max_daily_usd: 2}\n", ["error conflict 1:8"]),
    ],
)
def test_a_key_stands_in_one_file_of_the_project(own: str, other: str, expected: list[str]) -> None:
    assert problems(own, other) == expected


def test_both_files_of_the_project_are_one_level() -> None:
    node = only_node(NODE, {OWN: "provider: codex\n", OTHER: "model: big\ncommands: {a: b}\n"})
    assert node.provider == ProviderChoice("codex", "big")


def test_a_file_that_cannot_be_read() -> None:
    class Closed(TextWorld):
        def read(self, path: str) -> str | None:
            if path.endswith("settings.yaml"):
                raise StorageFailed(f"{path} can't be read", hint="open it")
            return super().read(path)

    report = Report()
    assert read_settings(Closed(), report) == Settings()
    assert [one.code for one in report.diagnostics] == ["unreadable"]


def test_a_folder_in_the_place_of_the_file_is_reported() -> None:
    report = Report()
    assert read_settings(TextWorld({f"{OWN}/x": ""}), report) == Settings()
    assert [one.message for one in report.diagnostics] == [f"{OWN} is a folder, not a settings file"]


def test_variables_are_expanded_where_a_setting_is_used() -> None:
    text = """\
model: ${MODEL}-${SIZE}
commands: {test: 'make ${TARGET}'}
provider: {type: api, base_url: '${URL}'}
orchestration: {cycle_limit: "${CYCLES}", token_budget: {a: 10}}
notify: [{command: 'say ${WHAT}'}, '${HOOK}']
"""
    hook = "https://x.example"
    read = settings(text, MODEL="m", SIZE="9", CYCLES="4", HOOK=hook)
    (level,) = read.levels
    assert level.work.provider is not None
    assert level.work.provider.config == {"base_url": "${URL}"}
    assert read.commands == {"test": "make ${TARGET}"}
    assert level.written["model"].value == "m-9"
    assert read.orchestration["cycle_limit"].value == 4
    assert [one.value.command or one.value.url for one in level.notify] == ["say ${WHAT}", hook]


CODEX = "nodes: [{id: n, stage: s, provider: codex}]\n"


@pytest.mark.parametrize(
    ("own", "users", "pipeline", "given", "expected"),
    [
        ("provider: '${X}'", "", NODE, Overrides(), [f"{OWN} 1:11"]),
        ("provider: '${X}'", "", CODEX, Overrides(), []),
        ("provider: '${X}'", "", NODE, Overrides(provider="codex"), []),
        ("llm: {model: '${X}'}", "", NODE, Overrides(), [f"{OWN} 1:14"]),
        ("llm: {model: '${X}'}", "", NODE, Overrides(model="m"), []),
        ("llm: {model: '${X}'}", "", CODEX, Overrides(), []),
        ("model: m", "model: '${X}'", NODE, Overrides(), []),
        ("model: '${X}'", "model: m", NODE, Overrides(), [f"{OWN} 1:8"]),
        ("orchestration: {cycle_limit: '${X}'}", "", NODE, Overrides(), []),
        ("orchestration: {cycle_limit: '${X}'}", "", ORCHESTRATED, Overrides(), [f"{OWN} 1:30"]),
        (
            "orchestration: {cycle_limit: '${X}'}",
            "",
            ORCHESTRATED,
            Overrides(orchestration={"cycle_limit": 3}),
            [],
        ),
        ("orchestration: {o_timeout: '${X}'}", "", ORCHESTRATED, Overrides(), []),
        (
            "orchestration: {n_timeout: 3}",
            "orchestration: {n_timeout: '${X}'}",
            ORCHESTRATED,
            Overrides(),
            [],
        ),
        ("pipeline: '${X}'", "", NODE, Overrides(), []),
        ("network: '${X}'", "network: local", NODE, Overrides(), [f"{OWN} 1:10"]),
        ("model: '${API_TOKEN}${X}'", "", CODEX, Overrides(), [f"{OWN} 1:8"]),
    ],
)
def test_an_unset_variable_is_an_error_where_the_value_counts(
    own: str, users: str, pipeline: str, given: Overrides, expected: list[str]
) -> None:
    files = {OWN: f"{own}\n", USERS: f"{users}\n"}
    diagnostics = found(pipeline, files, overrides=given, HOME="/home/me")
    places = (f"{one.place.file} {one.place.line}:{one.place.col}" for one in diagnostics if one.is_error)
    assert list(dict.fromkeys(places)) == expected


@pytest.mark.parametrize(
    ("own", "users", "expected"), [("${X}", "loop", "X"), ("loop", "${X}", None), ("loop", "", None)]
)
def test_the_default_pipeline_may_lack_a_variable(own: str, users: str, expected: str | None) -> None:
    files = {OWN: f"pipeline: {own}\n", USERS: f"pipeline: {users}\n"}
    report = Report()
    read = read_settings(TextWorld(files, HOME="/home/me"), report, is_lazy=True)
    unset = read.unset_of("pipeline")
    assert (unset and unset.value, report.diagnostics) == (expected, ())


def test_values_of_variables_are_limited_together() -> None:
    report = Report()
    text = "pipeline: ${A}\nmodel: ${A}${A}\n"
    read_settings(TextWorld({OWN: text}, A="a" * 400_000), report)
    assert [where(one) for one in report.diagnostics] == ["too-large 2:8"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("provider: '${WHO}'", {"provider": "codex"}),
        ("llm: {provider: '${WHO}', model: 'm-${SIZE}'}", {"provider": "codex", "model": "m-9"}),
        (
            "llm: {provider: {type: api, base_url: '${WHO}'}}",
            {"provider.type": "api", "provider.base_url": "${WHO}"},
        ),
    ],
)
def test_the_name_of_a_provider_is_expanded_its_settings_are_not(text: str, expected: dict[str, str]) -> None:
    (level,) = settings(text, WHO="codex", SIZE="9").levels
    assert {key: one.value for key, one in level.written.items()} == expected


def test_the_users_file_is_found_by_the_environment() -> None:
    files = {USERS: "pipeline: mine\n", "/x/agentforge/settings.yaml": "pipeline: theirs\n"}
    for environment, expected in (
        ({"HOME": "/home/me"}, "mine"),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "/x"}, "theirs"),
        ({"XDG_CONFIG_HOME": "relative"}, None),
        ({}, None),
    ):
        pipeline = read_settings(TextWorld(files, **environment), Report()).pipeline
        assert (pipeline and pipeline.value) == expected


def test_a_text_stands_in_for_a_file() -> None:
    world = TextWorld({OWN: "pipeline: a\n"})
    read = read_settings(world, Report(), {f"/project/{OWN}": "pipeline: {default_type: b}\n"})
    assert read.pipeline
    assert read.pipeline.value == "b"


def test_local_is_said_by_any_file() -> None:
    for users, own, expected in (
        ("local", "any", True),
        ("any", "local", True),
        ("any", "any", False),
    ):
        world = TextWorld({USERS: f"network: {users}\n", OWN: f"network: {own}\n"}, HOME="/home/me")
        report = Report()
        assert read_settings(world, report).is_local is expected
        warned = [f"{OWN}:1:10"] if (users, own) == ("local", "any") else []
        assert [one.place.text for one in report.diagnostics] == warned


def test_the_schema_agrees_with_the_reader() -> None:
    validator = Draft7Validator(settings_schema())
    right = {
        "pipeline": {"default_type": "loop"},
        "llm": {"provider": "api", "model": "m"},
        "commands": {"test": "make"},
        "notify": ["desktop"],
        "sandbox": "bwrap",
        "network": "local",
        "orchestration": {
            "a_timeout": 3,
            "cycle_limit": 3,
            "token_budget": {"total": 1000, "a": "40%"},
            "stages": {"a": {"retry_limit": 1, "context_strategy": "full"}},
        },
    }
    assert problems(json.dumps(right)) == []
    assert [*validator.iter_errors(right)] == []
    for wrong in (
        {"network": "off"},
        {"orchestration": {"cycle_limit": 11}},
        {"orchestration": {"a_timeout": 0}},
        {"orchestration": {"token_budget": {"a": 101}}},
        {"orchestration": {"stages": {"a": {"retry_limit": 11}}}},
    ):
        assert problems(json.dumps(wrong)) != []
        assert [*validator.iter_errors(wrong)] != []


@pytest.mark.hypothesis
@given(st.text() | st.text(alphabet="orchestain:{}[]_ \n$-#%0123456789\"'"))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    report = Report()
    read_settings(TextWorld({OWN: text, USERS: text}, HOME="/home/me"), report)
    assert all(one.place.file for one in report.diagnostics)


# -- precedence

LEVELS = ["users", "own", "pipeline", "stage", "node", "variable"]


@pytest.mark.hypothesis
@given(st.dictionaries(st.sampled_from(LEVELS), st.sampled_from(["codex", "api", "claude"])))
def test_settings_are_below_all_that_a_pipeline_says(levels: dict[str, str]) -> None:
    def line(level: str) -> str:
        return f"provider: {levels[level]}\n" if level in levels else ""

    files = {USERS: line("users"), OWN: line("own"), **stage("s", line("stage"))}
    node = f", provider: {levels['node']}" if "node" in levels else ""
    text = f"{line('pipeline')}nodes: [{{id: n, stage: s{node}}}]\n"
    environment = {"CLAUDE_PIPELINE_PROVIDER": levels["variable"]} if "variable" in levels else {}
    strongest = next((levels[name] for name in reversed(LEVELS) if name in levels), "claude")
    assert only_node(text, files, HOME="/home/me", **environment).provider.type == strongest


def test_commands_of_all_levels_are_merged() -> None:
    files = {USERS: "commands: {a: u, b: u, c: u}\n", OWN: "commands: {b: p, c: p}\n"}
    compiled = plan(f"commands: {{c: own}}\n{NODE}", files, HOME="/home/me")
    expected = {"a": "u", "b": "p", "c": "own"}
    assert compiled.pipeline.commands == expected
    assert compiled.only_stage.commands == expected


def test_a_nested_pipeline_gets_them_too() -> None:
    files = {OWN: "provider: codex\ncommands: {a: b}\nsandbox: bwrap\n", "inner.yaml": NODE}
    inner = plan("nodes: [{id: o, pipeline: inner.yaml}]", files).nodes[0]
    (node,) = inner.plan.nodes  # type: ignore[union-attr]
    assert isinstance(node, StageNode)
    assert (node.provider.type, dict(node.commands)) == ("codex", {"a": "b"})
    assert node.sandbox
    assert node.sandbox.type == "bwrap"


def test_a_stage_alone_gets_them_but_not_one_of_the_shell_engine() -> None:
    world = TextWorld({**stage(), OWN: "provider: codex\n"})
    unset = Machine(has_settings=False)
    assert compile_stage(world, "s").plan.only_stage.provider.type == "codex"
    assert compile_stage(world, "s", machine=unset).plan.only_stage.provider.type == "claude"
    assert compile_text(world, "p.yaml", NODE, "x", unset).plan.only_stage.provider.type == "claude"


@pytest.mark.parametrize(
    ("users", "own", "node", "expected", "warned"),
    [
        ("bwrap", "none", "", "bwrap", [f"{OWN} 1:10"]),
        ("bwrap", "", "none", "bwrap", ["p.yaml 1:36"]),
        ("bwrap", "none", "none", "bwrap", ["p.yaml 1:36"]),
        ("none", "bwrap", "", "bwrap", []),
        ("auto", "bwrap", "", "bwrap", []),
        ("bwrap", "auto", "", "bwrap", [f"{OWN} 1:10"]),
        ("bwrap", "", "", "bwrap", []),
        ("{type: bwrap, network: off}", "bwrap", "", "bwrap", [f"{OWN} 1:10"]),
        ("{type: bwrap, network: off}", "{type: bwrap, network: off}", "", "bwrap", []),
        ("{type: bwrap, network: on}", "bwrap", "", "bwrap", []),
        ("{type: bwrap, hidden: [a, b]}", "{type: bwrap, hidden: [a]}", "", "bwrap", [f"{OWN} 1:10"]),
        ("{type: bwrap, hidden: [a]}", "{type: bwrap, hidden: [b, a]}", "", "bwrap", []),
        ("{type: bwrap, writable: [a]}", "{type: bwrap, writable: [b]}", "", "bwrap", [f"{OWN} 1:10"]),
        ("{type: bwrap, writable: [a, b]}", "{type: bwrap, writable: [b]}", "", "bwrap", []),
        ("auto", "{type: bwrap, writable: [b]}", "", "bwrap", []),
    ],
)
def test_a_repository_does_not_loosen_the_users_sandbox(
    users: str, own: str, node: str, expected: str, warned: list[str]
) -> None:
    files = {USERS: f"sandbox: {users}\n"} | ({OWN: f"sandbox: {own}\n"} if own else {})
    own_key = f", sandbox: {node}" if node else ""
    text = f"nodes: [{{id: n, stage: s{own_key}}}]\n"
    diagnostics = found(text, files, HOME="/home/me")
    assert [f"{d.place.file} {d.place.line}:{d.place.col}" for d in diagnostics] == warned
    sandbox = only_node(text, files, HOME="/home/me").sandbox
    assert sandbox
    assert sandbox.type == expected
    assert sandbox.network is not ("off" in users)


def test_a_built_in_pipeline_takes_the_users_sandbox_in_silence() -> None:
    text = "{name: b, sandbox: auto, nodes: [{id: n, prompt: x}]}"
    world = TextWorld({"/builtin/pipelines/b.yaml": text, USERS: "sandbox: bwrap\n"}, HOME="/home/me")
    compiled = compile_pipeline(world, "b", "x")
    assert compiled.plan.only_stage.sandbox
    assert compiled.plan.only_stage.sandbox.type == "bwrap"
    assert compiled.warnings == ()


LIMITS = ("cost_usd", "tokens", "daily_usd", "warn_usd")
LONGER = {"cost_usd": "max_per_pipeline_usd", "daily_usd": "max_daily_usd", "warn_usd": "warn_threshold_usd"}
AMOUNTS = st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 9), max_size=4)


@given(AMOUNTS, AMOUNTS, st.dictionaries(st.sampled_from(LIMITS[:2]), st.integers(1, 9)), st.booleans())
def test_the_lowest_limit_counts_wherever_it_is_said(
    users: dict[str, int], own: dict[str, int], pipeline: dict[str, int], longer: bool
) -> None:
    said = json.dumps({"limits": users})
    if longer:
        costs = {LONGER[name]: value for name, value in users.items() if name in LONGER}
        rest = {name: value for name, value in users.items() if name not in LONGER}
        said = json.dumps({"cost": costs, "limits": rest})
    files = {USERS: said, OWN: json.dumps({"limits": own}), **stage()}
    written = json.dumps({"nodes": [{"id": "n", "stage": "s"}], "limits": pipeline})
    world = TextWorld({"p.yaml": written, **files}, HOME="/home/me")
    info = compile_pipeline(world, "p.yaml", "s").plan.pipeline
    given = info.limits or Limits()
    found = {"cost_usd": given.cost_usd, "tokens": given.tokens}
    found |= {"daily_usd": info.daily_usd, "warn_usd": info.warn_usd}
    for name in LIMITS:
        levels = [level[name] for level in (users, own, pipeline) if name in level]
        assert found[name] == min(levels, default=None)
    named = {applied.key for applied in info.settings}
    assert named == {
        f"limits.{name}"
        for name in {*users, *own}
        if (lowest := found[name]) is not None and lowest < pipeline.get(name, 10)
    }


def test_limits_above_those_of_the_user_are_a_warning_where_they_are_written() -> None:
    users, own = (
        "limits: {cost_usd: 2, daily_usd: 5, tokens: 20}\n",
        "cost: {max_per_pipeline_usd: 3, max_daily_usd: 4}\n",
    )
    text = "limits:\n  cost_usd: 10\n  cycles: 2\n  tokens: 9\nnodes: [{id: n, stage: s}]\n"
    diagnostics = found(text, {USERS: users, OWN: own}, HOME="/home/me")
    assert [(one.place.file, where(one), one.is_error) for one in diagnostics] == [
        (OWN, "less-strict 1:30", False),
        ("p.yaml", "less-strict 2:13", False),
    ]
    assert (
        diagnostics[1].message == f"`limits.cost_usd` of the settings is lower ({USERS}:1:20), which counts"
    )
    limits = plan(text, {USERS: users, OWN: own}, HOME="/home/me").pipeline.limits
    assert limits == Limits(cycles=2, cost_usd=2, tokens=9)


def test_limits_of_settings_are_for_stages_alone_and_built_in_pipelines_too() -> None:
    built_in = "/b/pipelines/q.yaml"
    files = {OWN: "limits: {cost_usd: 2}\n", built_in: f"name: q\nlimits: {{cost_usd: 9}}\n{NODE}", **stage()}
    world = TextWorld(files)
    assert compile_stage(world, "s").plan.pipeline.limits == Limits(cost_usd=2)


def test_the_default_provider_is_asked_only_if_none_is_named() -> None:
    asked: list[str] = []

    def default() -> str:
        asked.append("")
        return "codex"

    def provider(text: str, files: dict[str, str] | None = None) -> ProviderChoice:
        world = TextWorld({"p.yaml": text, **stage(), **(files or {})})
        return compile_pipeline(world, "p.yaml", "x", machine=Machine(default)).plan.only_stage.provider

    assert provider(f"provider: claude\n{NODE}").type == "claude"
    assert provider(NODE, {OWN: "provider: api\n"}).type == "api"
    assert asked == []
    assert provider(NODE) == ProviderChoice("codex", "gpt-5.5")
    assert provider(NODE, {OWN: "model: own\n"}) == ProviderChoice("codex", "own")
    assert len(asked) == 2


def test_the_default_provider_must_be_known() -> None:
    world = TextWorld({"p.yaml": NODE, **stage()})
    with pytest.raises(DefinitionError, match="no provider named `codex`"):
        compile_pipeline(world, "p.yaml", "x", machine=Machine(lambda: "codex", known_providers=["claude"]))


# -- orchestration


def orchestrated(text: str, pipeline: str = ORCHESTRATED) -> StageNode:
    return only_node(pipeline, {OWN: f"orchestration: {{{text}}}\n"})


@pytest.mark.requirement("FR-030", "FR-031", "FR-047", "FR-065")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n_timeout: 30", {"timeout": 30.0}),
        ("n_timeout: 30, stages: {n: {timeout: 20}}", {"timeout": 20.0}),
        ("step_retry_limit: 3", {"retry.max_attempts": 4}),
        ("stage_retry_limit: 2", {"retry.max_attempts": 9, "retry.stage": 2}),
        ("stage_retry_limit: 2, stages: {n: {retry_limit: 0}}", {"retry.stage": 0}),
        ("cycle_limit: 5", {"limits.cycles": 5}),
        ("token_budget: {total: 1000, n: 40%}", {"tokens.total": 1000, "tokens.share": 40.0}),
        ("stages: {n: {context_strategy: minimal}}", {"context_strategy": "minimal"}),
        ("stages: {n: {require_human_approval: true}}", {"approve.by": "person"}),
        ("stages: {n: {auto_retry_on_failure: false}}", {"routes": (Route("fail", "ask"),)}),
        ("stages: {n: {auto_retry_on_failure: true}}", {"routes": ()}),
    ],
)
def test_orchestration_overrides_the_node(text: str, expected: dict[str, Any]) -> None:
    node = orchestrated(text)
    for name, value in expected.items():
        part: Any = node
        for step in name.split("."):
            part = getattr(part, step)
        assert part == value


def test_other_routes_and_keys_of_the_node_stay() -> None:
    pipeline = """\
settings: orchestration
nodes: [{id: n, stage: s, on: {fail: n, reject: n}, approve: {message: Sure?}, limits: {cluster: 9}}]
"""
    text = "cycle_limit: 4, stages: {n: {auto_retry_on_failure: false, require_human_approval: true}}"
    node = orchestrated(text, pipeline)
    assert set(node.routes) == {Route("fail", "ask"), Route("reject", "go", "n")}
    assert node.approve
    assert node.approve.message == "Sure?"
    assert node.limits
    assert (node.limits.cycles, node.limits.cluster) == (4, 9)
    assert orchestrated("stages: {n: {require_human_approval: false}}", pipeline).approve is None


def test_other_pipelines_take_nothing_of_it() -> None:
    node = orchestrated("cycle_limit: 5, n_timeout: 3, other_timeout: 3", NODE)
    assert (node.limits, node.timeout) == (None, None)
    assert found(NODE, {OWN: "orchestration: {other_timeout: 3}\n"}) == []


def test_the_projects_key_counts_before_the_users_and_the_special_one_before_both() -> None:
    files = {
        USERS: "orchestration: {cycle_limit: 2, n_timeout: 2, stages: {n: {timeout: 7}}}\n",
        OWN: "orchestration: {cycle_limit: 5, n_timeout: 5}\n",
    }
    node = only_node(ORCHESTRATED, files, HOME="/home/me")
    assert node.timeout == 7
    assert node.limits
    assert node.limits.cycles == 5


def test_what_the_caller_gives_is_above_the_files() -> None:
    files = {"p.yaml": ORCHESTRATED, **stage(), OWN: "orchestration: {cycle_limit: 2}\n"}
    given = Overrides(orchestration={"cycle_limit": 5, "stages.n.timeout": 30})
    made = compile_pipeline(TextWorld(files), "p.yaml", "session", overrides=given).plan
    node = made.only_stage
    assert (node.timeout, node.limits and node.limits.cycles) == (30, 5)
    assert made.pipeline.overrides == given
    assert [one.key for one in made.pipeline.settings] == []


def test_ids_in_what_the_caller_gives_may_have_dots() -> None:
    given = {"stages.a.b.timeout": 1, "token_budget.a.b": 2, "a.b_timeout": 3, "cycle_limit": 4}
    assert parts_of("commands.a.b") == ["commands", "a.b"]
    found = read_settings(TextWorld({}), Report(), given=given).orchestration
    assert {key: written.value for key, written in found.items()} == given


@pytest.mark.parametrize(
    ("pipeline", "given", "expected"),
    [
        (ORCHESTRATED, {"cycle_limit": 11}, "error bad-value"),
        (ORCHESTRATED, {"stages.m.timeout": 1}, "warning unknown-stage"),
        (NODE, {"cycle_limit": 3}, "error no-orchestration"),
    ],
)
def test_what_the_caller_gives_is_read_like_a_file(pipeline: str, given: Any, expected: str) -> None:
    (wrong,) = found(pipeline, overrides=Overrides(orchestration=given))
    assert f"{wrong.severity} {wrong.code}" == expected
    assert wrong.place.file == ARGUMENTS


def test_stages_that_the_pipeline_does_not_have_are_a_warning() -> None:
    text = """\
orchestration:
  nn_timeout: 3
  cycle_limit: 2
  token_budget: {total: 9, m.1: 3, n: 2}
  stages: {a: {timeout: 1}, n: {timeout: 1}, b: {timeout: 2}}
"""
    pipeline = """\
settings: orchestration
nodes:
  - {id: n, stage: s}
  - id: p
    parallel: {providers: [claude], stages: [{id: b, stage: s}]}
"""
    diagnostics = found(pipeline, {OWN: text})
    assert [where(one) for one in diagnostics if one.code == "unknown-stage"] == [
        "unknown-stage 2:15",
        "unknown-stage 4:33",
        "unknown-stage 5:25",
    ]


def test_shares_are_at_most_100_percent_with_those_of_the_pipeline() -> None:
    pipeline = """\
settings: orchestration
tokens: {total: 9}
nodes:
  - {id: n, stage: s, tokens: {share: 40}}
  - {id: m, stage: s, tokens: {share: 60}}
  - {id: o, stage: s}
"""
    for share, expected in ((40, []), (41, ["bad-value 1:35"])):
        diagnostics = found(pipeline, {OWN: f"orchestration: {{token_budget: {{n: {share}}}}}\n"})
        assert [where(one) for one in diagnostics] == expected
    both = found(pipeline, {OWN: "orchestration: {token_budget: {n: 60, m: 50}}\n"})
    assert [where(one) for one in both] == ["bad-value 1:42"]
    assert found(pipeline.replace("60", "90"), {OWN: "orchestration: {cycle_limit: 3}\n"}) == []


def test_settings_is_a_key_of_the_pipeline_only() -> None:
    (misplaced,) = found("nodes: [{id: n, stage: s, settings: orchestration}]")
    assert where(misplaced) == "misplaced-key 1:27"


# -- what is pinned in the plan


def used(text: str, files: dict[str, str], **environment: str) -> list[tuple[str, str]]:
    info = plan(text, files, HOME="/home/me", **environment).pipeline
    return [(one.key, one.place) for one in info.settings]


def test_the_plan_names_the_settings_that_changed_it() -> None:
    files = {
        USERS: "provider: codex\nmodel: m\ncommands: {a: u, b: u}\nnotify: desktop\n",
        OWN: "commands: {b: p}\nsandbox: {type: bwrap}\npipeline: x\nnetwork: local\n",
    }
    users = f"{USERS}:"
    every = [
        ("provider", f"{users}1:1"),
        ("model", f"{users}2:1"),
        ("commands.a", f"{users}3:12"),
        ("notify", f"{users}4:1"),
        ("commands.b", f"{OWN}:1:12"),
        ("sandbox.type", f"{OWN}:2:11"),
        ("network", f"{OWN}:4:1"),
    ]
    assert used(NODE, files) == every
    assert used(f"provider: claude\nsandbox: docker\n{NODE}".replace("docker", "bwrap"), files) == [
        every[2],
        every[3],
        every[4],
        every[6],
    ]
    assert used(f"model: own\n{NODE}", files)[:2] == [every[0], every[2]]
    assert used(NODE, files, AGENTFORGE_NOTIFY="desktop") == [*every[:3], *every[4:]]


def test_the_plan_names_the_orchestration_that_it_takes() -> None:
    files = {
        USERS: "orchestration: {cycle_limit: 2, stage_retry_limit: 1}\n",
        OWN: "orchestration: {cycle_limit: 4, n_timeout: 3}\n",
    }
    assert used(ORCHESTRATED, files) == [
        ("orchestration.stage_retry_limit", f"{USERS}:1:33"),
        ("orchestration.cycle_limit", f"{OWN}:1:17"),
        ("orchestration.n_timeout", f"{OWN}:1:33"),
    ]
    assert used(NODE, files) == []


def test_notifications_of_a_project_count_if_it_is_trusted() -> None:
    world = TextWorld(
        {"p.yaml": f"notify: desktop\n{NODE}", **stage(), USERS: "notify: 'https://u.example'\n"}
        | {OWN: "notify: {command: say}\n"},
        HOME="/home/me",
    )

    def notified(*, trusted: bool) -> tuple[list[str | None], list[str]]:
        machine = Machine(trusts_project=lambda: trusted)
        compiled = compile_pipeline(world, "p.yaml", "x", machine=machine)
        told = [one.command or one.url for one in compiled.plan.pipeline.notify]
        return told, [f"{one.code} {one.place.text}" for one in compiled.warnings]

    assert notified(trusted=True) == ([None, "say"], [])
    assert notified(trusted=False) == ([None, "https://u.example"], [f"untrusted {OWN}:1:9"])


def test_notifications_are_bounded_together() -> None:
    many = f"notify: [{', '.join(['desktop'] * 11)}]\n"
    diagnostics = found(many + NODE, {USERS: many}, HOME="/home/me")
    assert [one.code for one in diagnostics] == ["too-large"]

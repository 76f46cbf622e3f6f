"""Who wins of provider, model and the provider's own settings: the table, for stages, blocks and judge."""

from itertools import combinations
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.read.provider_settings import VARIABLE, merge_settings, settings_from_pairs
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides, Plan, ProviderChoice

from .world import TextWorld, found, stage, where

LEVELS = ("command line", "environment", "node", "stage.yaml", "pipeline", "defaults")
"""Strongest first; the weakest is the provider's own default."""


class Said(Struct, frozen=True):
    """What one level says."""

    provider: str | None = None
    model: str | None = None
    config: dict[str, Any] | None = None

    def yaml(self) -> str:
        keys = {"provider": self.provider, "model": self.model, "provider_config": self.config}
        return msgspec.json.encode({key: value for key, value in keys.items() if value is not None}).decode()


def compiled(says: dict[str, Said], nodes: str = "[{id: n, stage: s%s}]", **environment: str) -> Plan:
    inner = {level: said.yaml()[1:-1] for level, said in says.items()}
    node = f", {inner['node']}" if inner.get("node") else ""
    text = "{" + (f"{inner['pipeline']}, " if inner.get("pipeline") else "")
    text += f"defaults: {{{inner.get('defaults', '')}}}, nodes: {nodes.replace('%s', node)}}}"
    if variables := says.get("environment"):
        named = {"CLAUDE_PIPELINE_PROVIDER": variables.provider, "CLAUDE_PIPELINE_MODEL": variables.model}
        environment |= {name: value for name, value in named.items() if value}
        if variables.config is not None:
            environment[VARIABLE] = msgspec.json.encode(variables.config).decode()
    asked = says.get("command line", Said())
    body = "".join(f"{line}\n" for line in _lines(says.get("stage.yaml", Said())))
    world = TextWorld({"p.yaml": text, **stage("s", body)}, **environment)
    overrides = Overrides(asked.provider, asked.model, config=asked.config or {})
    return compile_pipeline(world, "p.yaml", "x", overrides).plan


def chosen(says: dict[str, Said]) -> ProviderChoice:
    return compiled(says).only_stage.provider


def _lines(said: Said) -> list[str]:
    keys = msgspec.json.decode(said.yaml())
    return [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in keys.items()]


@pytest.mark.parametrize("winner", [*LEVELS, "provider default"])
class TestTheStrongestLevelThatSpeaksWins:
    def speaking(self, winner: str) -> tuple[str, ...]:
        """The winner and all weaker levels."""
        return LEVELS[LEVELS.index(winner) :] if winner in LEVELS else ()

    def test_provider(self, winner: str) -> None:
        says = {level: Said(provider=f"p{LEVELS.index(level)}") for level in self.speaking(winner)}
        expected = f"p{LEVELS.index(winner)}" if says else "claude"
        assert chosen(says).type == expected

    def test_model(self, winner: str) -> None:
        says = {level: Said(model=f"m{LEVELS.index(level)}") for level in self.speaking(winner)}
        expected = f"m{LEVELS.index(winner)}" if says else "opus"
        assert (chosen(says).type, chosen(says).model) == ("claude", expected)

    def test_options(self, winner: str) -> None:
        says = {level: Said(config={"shared": level, level: 1}) for level in self.speaking(winner)}
        expected = {"shared": winner} | dict.fromkeys(says, 1) if says else {}
        assert chosen(says).config == expected

    def test_provider_model_and_options_of_the_same_level(self, winner: str) -> None:
        says = {
            level: Said(f"p{LEVELS.index(level)}", f"m-{level}", {"from": level})
            for level in self.speaking(winner)
        }
        number = LEVELS.index(winner) if says else 0
        expected = ProviderChoice(f"p{number}", f"m-{winner}", {"from": winner})
        assert chosen(says) == (expected if says else ProviderChoice("claude", "opus"))


@pytest.mark.parametrize(("changing", "weaker"), list(combinations(LEVELS, 2)))
def test_a_level_that_changes_the_provider_drops_model_and_options_of_weaker_ones(
    changing: str, weaker: str
) -> None:
    says = {weaker: Said("command", "small", {"argv": ["a"]}), changing: Said("codex")}
    assert chosen(says) == ProviderChoice("codex", "gpt-5.5")


@pytest.mark.parametrize("naming", LEVELS[:-1])
def test_a_level_that_names_the_same_provider_keeps_model_and_options(naming: str) -> None:
    says = {"defaults": Said("openai", "small", {"effort": "low"}), naming: Said("codex")}
    assert chosen(says) == ProviderChoice("codex", "small", {"effort": "low"})


@pytest.mark.parametrize("level", LEVELS)
def test_options_of_levels_weaker_than_the_naming_one_are_dropped(level: str) -> None:
    """Options that stand beside the name are for that provider, and so are those of stronger levels."""
    says = {"node": Said("mine"), level: Said("mine" if level == "node" else None, config={"a": 1})}
    kept = LEVELS.index(level) <= LEVELS.index("node")
    assert chosen(says).config == ({"a": 1} if kept else {})


def test_mappings_within_options_are_merged_and_lists_are_replaced() -> None:
    says = {
        "pipeline": Said(config={"env": {"A": 1, "B": 1}, "argv": ["x", "y"]}),
        "environment": Said(config={"env": {"B": 2}, "argv": ["z"]}),
        "command line": Said(config={"env": {"C": 3}}),
    }
    assert chosen(says).config == {"env": {"A": 1, "B": 2, "C": 3}, "argv": ["z"]}


class TestParallelBlocks:
    NODES = "[{id: b, parallel: {providers: [codex, gemini], stages: [{id: n, stage: s%s}]}}]"

    def branches(self, says: dict[str, Said]) -> dict[str, ProviderChoice]:
        (block,) = compiled(says, self.NODES).nodes
        return {branch.provider: branch.stages[0].provider for branch in block.branches}

    @pytest.mark.parametrize("level", ["command line", "environment"])
    def test_options_reach_every_branch_where_no_provider_is_named(self, level: str) -> None:
        found = self.branches({level: Said(config={"a": 1}), "node": Said(config={"a": 0, "b": 0})})
        assert {name: choice.config for name, choice in found.items()} == {
            "codex": {"a": 1, "b": 0},
            "gemini": {"a": 1, "b": 0},
        }

    @pytest.mark.parametrize("level", ["command line", "environment"])
    def test_options_reach_the_branches_of_the_provider_that_is_named(self, level: str) -> None:
        found = self.branches({level: Said("openai", "big", {"a": 1})})
        assert found == {
            "codex": ProviderChoice("codex", "gpt-5.5", {"a": 1}),
            "gemini": ProviderChoice("gemini", ""),
        }

    def test_command_line_over_environment_over_node(self) -> None:
        found = self.branches(
            {
                "command line": Said(config={"a": "line"}),
                "environment": Said(config={"a": "env", "b": "env"}),
                "node": Said(config={"a": "node", "b": "node", "c": "node"}),
            }
        )
        assert found["gemini"].config == {"a": "line", "b": "env", "c": "node"}

    def test_files_give_options_to_branches_of_the_provider_that_they_name(self) -> None:
        found = self.branches(
            {"pipeline": Said("gemini", "m", {"a": 1}), "stage.yaml": Said(config={"b": 2})}
        )
        assert (found["codex"].config, found["gemini"].config) == ({}, {"a": 1, "b": 2})


@pytest.mark.parametrize("level", LEVELS)
def test_judge_is_touched_by_no_level(level: str) -> None:
    assert compiled({level: Said("codex", "m", {"a": 1})}).judge == ProviderChoice("claude", "haiku")


def test_judge_has_its_own_variables() -> None:
    plan = compiled({"environment": Said("codex")}, JUDGE_PROVIDER="gemini", JUDGE_MODEL="fast")
    assert plan.judge == ProviderChoice("gemini", "fast")


class TestEnvironmentVariable:
    @pytest.mark.parametrize(
        "text", ['{"a": {"b": [1, true]}}', "a: {b: [1, true]}", "a:\n  b:\n  - 1\n  - true\n"]
    )
    def test_yaml_or_json(self, text: str) -> None:
        plan = compiled({}, **{VARIABLE: text})
        assert plan.only_stage.provider.config == {"a": {"b": [1, True]}}

    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_empty_values_are_ignored(self, text: str) -> None:
        assert compiled({}, **{VARIABLE: text}).only_stage.provider.config == {}

    @pytest.mark.parametrize(
        ("text", "expected", "message"),
        [
            ("a: }", "syntax 1:4", "not valid YAML"),
            ("just words", "not-a-mapping 1:1", "must be a mapping"),
            ("a: .inf", "bad-value 1:4", "not valid JSON"),
        ],
    )
    def test_bad_text_is_a_diagnostic_that_names_the_variable(
        self, text: str, expected: str, message: str
    ) -> None:
        (diagnostic,) = found("nodes: [{id: n, stage: s}]", **{VARIABLE: text})
        assert (diagnostic.is_error, where(diagnostic)) == (True, expected)
        assert diagnostic.place.file == f"<{VARIABLE}>"
        assert message in diagnostic.message


class TestCommandLine:
    @pytest.mark.parametrize(
        ("pairs", "expected"),
        [
            (["a=1"], {"a": 1}),
            (["a=1.5", "b=true", "c=null", "d=on"], {"a": 1.5, "b": True, "c": None, "d": "on"}),
            (["a='1'", 'b="true"'], {"a": "1", "b": "true"}),
            (["a=[x, 2]", "b={c: 3}"], {"a": ["x", 2], "b": {"c": 3}}),
            (["url=http://127.0.0.1:11434/v1?a=b"], {"url": "http://127.0.0.1:11434/v1?a=b"}),
            (["a="], {"a": ""}),
            (["env.LANG=C", "env.TZ=UTC"], {"env": {"LANG": "C", "TZ": "UTC"}}),
            (["a=1", "a=2"], {"a": 2}),
            (["a=1", "a.b=2"], {"a": {"b": 2}}),
            ([], {}),
        ],
    )
    def test_values_are_yaml_and_dots_lead_into_mappings(self, pairs: list[str], expected: object) -> None:
        assert settings_from_pairs(pairs) == expected

    def test_all_errors_are_reported_at_once(self) -> None:
        with pytest.raises(DefinitionError) as caught:
            settings_from_pairs(["nothing", "=1", ".a=1", "a.=1", "b={", "good=1"])
        messages = [diagnostic.message for diagnostic in caught.value.diagnostics]
        assert [message for message in messages if "expected KEY=VALUE" in message] == [
            f"expected KEY=VALUE, got `{pair}`" for pair in ("nothing", "=1", ".a=1", "a.=1")
        ]
        assert len(messages) == 5


def test_settings_that_are_not_json_are_refused() -> None:
    overrides = Overrides(config={"a": object()})
    (diagnostic,) = found("nodes: [{id: n, stage: s}]", overrides=overrides)
    assert (diagnostic.code, diagnostic.place.file) == ("bad-value", "<arguments>")


def test_a_plan_without_caller_options_is_unchanged() -> None:
    encoded = msgspec.to_builtins(compiled({}))
    assert encoded["pipeline"]["overrides"] == {}
    with_options = msgspec.to_builtins(compiled({"command line": Said(config={"a": 1})}))
    assert with_options["pipeline"]["overrides"] == {"config": {"a": 1}}


def test_merging_does_not_modify_its_arguments() -> None:
    weaker, stronger = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge_settings(weaker, stronger) == {"a": {"b": 1, "c": 2}}
    assert (weaker, stronger) == ({"a": {"b": 1}}, {"a": {"c": 2}})

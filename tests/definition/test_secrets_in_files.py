"""A definition that holds a secret is refused, and the refusal doesn't repeat it."""

import pytest

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.read.provider_settings import VARIABLE, settings_from_pairs
from agentforge.model.diagnostic import render
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides

from .world import TextWorld, found, stage, where

KEY = "sk-ant-0123456789"
HEAD = "name: p\nnodes:\n  - id: n\n    stage: s\n"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (f"provider: {{type: command, run: x, env: {{MY_API_KEY: {KEY}}}}}", "5:57"),
        (f"provider: {{type: api, api_key: {KEY}}}", "5:36"),
        (f"provider_config: {{env: {{DB_PASSWORD: {KEY}}}}}", "5:42"),
        (f"provider: [claude, {{type: codex, env: {{CODEX_TOKEN: {KEY}}}}}]", "5:57"),
    ],
)
def test_a_secret_is_refused_at_its_place(line: str, place: str) -> None:
    (diagnostic,) = found(f"{HEAD}    {line}\n")
    assert where(diagnostic) == f"secret-in-file {place}"
    assert diagnostic.is_error
    assert "pass_env: [" in diagnostic.hint
    assert KEY not in render([diagnostic])
    assert "[secret]" in diagnostic.text


def test_a_secret_is_refused_in_a_stage_and_in_a_block() -> None:
    (diagnostic,) = found(HEAD, stage("s", f"provider: {{type: command, env: {{A_TOKEN: {KEY}}}}}\n"))
    assert diagnostic.place.file == ".claude/stages/s/stage.yaml"
    branch = f"{{name: a, type: command, env: {{A_TOKEN: {KEY}}}}}"
    block = f"{{providers: [{branch}], stages: [{{id: d, prompt: x}}]}}"
    (diagnostic,) = found(f"nodes: [{{id: n, parallel: {block}}}]")
    assert diagnostic.code == "secret-in-file"


@pytest.mark.parametrize(
    "variable",
    [
        "MY_API_KEY: short",
        "MY_API_KEY: lm-studio",
        "MY_API_KEY: not-needed",
        "MY_API_KEY: $OTHER_KEY_0123",
        "MY_API_KEY: '${OTHER_KEY_0123}'",
        "MY_API_KEY: 1234567890",
        "MY_API_KEY: true",
        "MY_CREDENTIALS: /etc/google-1234.json",
        "MY_CREDENTIALS: ~/google-1234.json",
        f"PLAIN: {KEY}",
        f"TOKEN_COUNT: {KEY}",
        f"MY_API_KEY: [{KEY}]",
    ],
)
def test_values_that_are_not_secrets_are_allowed(variable: str) -> None:
    assert found(f"{HEAD}    provider: {{type: command, run: x, env: {{{variable}}}}}\n") == []


def test_other_messages_about_the_same_line_hide_it_too() -> None:
    line = f"provider: {{type: command, env: {{MY_API_KEY: {KEY}}}, weight: .nan}}"
    diagnostics = found(f"{HEAD}    {line}\n")
    assert {diagnostic.code for diagnostic in diagnostics} == {"secret-in-file", "bad-value"}
    assert KEY not in render(diagnostics)


@pytest.mark.parametrize("way", ["variable", "caller"])
def test_a_secret_is_refused_from_outside_the_file_as_well(way: str) -> None:
    config = {"env": {"MY_API_KEY": KEY}}
    environment = {VARIABLE: f"{{env: {{MY_API_KEY: {KEY}}}}}"} if way == "variable" else {}
    overrides = Overrides(config=config if way == "caller" else {})
    world = TextWorld({**stage(), "p.yaml": HEAD}, **environment)
    with pytest.raises(DefinitionError) as refusal:
        compile_pipeline(world, "p.yaml", "auth", overrides)
    assert [diagnostic.code for diagnostic in refusal.value.diagnostics] == ["secret-in-file"]
    assert KEY not in str(refusal.value)


WRITTEN = "${secret:GITHUB_TOKEN}"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (f"    context: 'take {WRITTEN}'", "5:14"),
        ('    context: "take \\x24{secret:GITHUB_TOKEN}"', "5:14"),
        ("    context: 'take ${secret:${CONTEXT}}'", "5:14"),
        (f"    commands: {{test: 'curl -H {WRITTEN}'}}", "5:22"),
        (f"    provider: {{type: api, model: m, base_url: 'http://127.0.0.1/{WRITTEN}'}}", "5:47"),
        (f"    provider: {{type: command, run: 'echo {WRITTEN}'}}", "5:36"),
        (f"    provider: {{type: command, run: x, env: {{PLAIN: '{WRITTEN}'}}}}", "5:52"),
        (f"    outputs: {{'{WRITTEN}': x}}", "5:15"),
        (f"notify: 'http://127.0.0.1:8765/?t={WRITTEN}'", "5:9"),
        (f"notify: {{command: 'echo {WRITTEN}'}}", "5:19"),
        (f"hooks: {{stage_end: {{action: script, script: 'echo {WRITTEN}'}}}}", "5:45"),
        (f"hooks: {{stage_end: {{action: webhook, url: 'https://x/{WRITTEN}'}}}}", "5:43"),
        (f"description: about {WRITTEN}", "5:14"),
    ],
)
def test_a_definition_refers_to_no_secret(line: str, place: str) -> None:
    diagnostics = found(f"{HEAD}{line}\n", GITHUB_TOKEN=KEY)
    assert f"secret-in-file {place}" in map(where, diagnostics)
    (first, *_) = [diagnostic for diagnostic in diagnostics if diagnostic.code == "secret-in-file"]
    assert first.is_error
    assert "pass_env" in first.hint
    assert first.text == line.rstrip()


def test_a_prompt_refers_to_no_secret() -> None:
    (diagnostic,) = found(f"nodes: [{{id: n, prompt: '{WRITTEN}'}}]")
    assert where(diagnostic) == "secret-in-file 1:25"
    files = stage("s", "description: x\n") | {".claude/stages/s/prompt.md": f"Do it.\nWith {WRITTEN}.\n"}
    (diagnostic,) = found(HEAD, files)
    assert (diagnostic.place.file, where(diagnostic)) == (".claude/stages/s/prompt.md", "secret-in-file 2:6")


def test_settings_from_outside_the_file_refer_to_no_secret() -> None:
    (diagnostic,) = found(HEAD, **{VARIABLE: f"{{base_url: '{WRITTEN}'}}"})
    assert diagnostic.code == "secret-in-file"
    with pytest.raises(DefinitionError) as refusal:
        settings_from_pairs([f"base_url='{WRITTEN}'"])
    assert [diagnostic.code for diagnostic in refusal.value.diagnostics] == ["secret-in-file"]

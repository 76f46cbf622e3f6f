"""`lint` refuses what a run would refuse, with the same words."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from tests.adapters.fake_clis import put_cli, speaking
from tests.sdk.projects import ENVIRON, node, pipeline, run, run_dir

from agentforge.app.definitions import Definitions, LintResult
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.errors import AgentForgeError, DefinitionError, ProviderUnusable
from agentforge.sdk.engine import Engine

COMMAND = {"type": "command", "run": "true"}
JUDGED = {"termination": {"type": "judgment", "max": 3}}
PROVIDERS = ".agentforge/providers"


class Case(msgspec.Struct):
    stage: dict[str, Any]
    message: str
    files: dict[str, str] = {}
    environ: dict[str, str] = {}
    is_static: bool = True
    """Whether it is wrong on every machine."""


REFUSED = {
    "unknown provider": Case({"provider": "nosuch"}, "no provider named `nosuch`"),
    "unknown stage": Case({"stage": "nosuch"}, "no stage named `nosuch`"),
    "wrong value": Case({"delay": -1}, "`delay` must be"),
    "description of the provider": Case(
        {"provider": "mine"}, "unknown key `programm`", {f"{PROVIDERS}/mine.yaml": "programm: x\n"}
    ),
    "override of a built-in provider": Case(
        {"provider": "claude"},
        "would override the built-in one",
        {f"{PROVIDERS}/claude.yaml": "program: sh\n"},
    ),
    "prompt of the judge": Case(
        JUDGED, "JUDGE_PROMPT_PATH must name a readable file", environ={"JUDGE_PROMPT_PATH": "missing.md"}
    ),
    "settings of the provider": Case(
        {"provider": {"type": "cli", "program": "sh", "timeout": -4}}, "`timeout` must be"
    ),
    "misspelled setting": Case({"provider": {**COMMAND, "pasenv": ["HOME"]}}, "unknown config key `pasenv`"),
    "misspelled model": Case({"provider": {**COMMAND, "modle": "x"}}, "unknown config key `modle`"),
    "sandbox in the provider": Case(
        {"provider": {**COMMAND, "sandbox": "bwrap"}}, "`sandbox` is not a setting"
    ),
    "misspelled sandbox in the provider": Case(
        {"provider": {**COMMAND, "sandbx": "bwrap"}}, "unknown config key `sandbx`"
    ),
    "missing program": Case({"provider": "codex"}, "Codex CLI not found", is_static=False),
    "missing judge": Case(JUDGED, "stage 'plan' has no judge", is_static=False),
    "missing queue": Case({"termination": {"type": "queue", "max": 3}}, "command: bd", is_static=False),
    "sandbox that does not work here": Case(
        {"sandbox": {"type": "docker", "image": "x"}}, "docker", is_static=False
    ),
    "provider that cannot be sandboxed": Case(
        {"provider": "mock", "sandbox": "bwrap"}, "cannot be sandboxed", is_static=False
    ),
}


def prepared(project: Path, case: Case) -> dict[str, Any]:
    for name, text in case.files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    stage = {**node(provider=COMMAND), **case.stage}
    if "stage" in stage:
        del stage["prompt"]
    definition = pipeline(stage)
    (project / "p.yaml").write_bytes(msgspec.json.encode(definition))
    return definition


def errors(found: LintResult) -> list[str]:
    return [diagnostic.message for diagnostic in found.diagnostics if diagnostic.is_error]


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_lint_and_a_run_refuse_the_same(tmp_path: Path, case: Case) -> None:
    prepared(tmp_path, case)

    async def main() -> tuple[LintResult, LintResult, AgentForgeError]:
        async with Engine(tmp_path, environ={**ENVIRON, "PATH": "/nowhere", **case.environ}) as sdk:
            with pytest.raises(AgentForgeError) as caught:
                await sdk.run("p.yaml", session="s")
            static = sdk.definitions.lint("p.yaml", "pipeline")
            return await sdk.lint("p.yaml", "pipeline"), static, caught.value

    found, static, error = run(main())
    assert not run_dir(tmp_path).exists()
    assert static.passed is not case.is_static
    assert any(case.message in message for message in errors(found)), errors(found)
    if isinstance(error, DefinitionError):
        assert set(error.diagnostics) <= set(found.diagnostics)
    else:
        assert any(message in error.message for message in errors(found)), error.message


def test_all_that_is_wrong_with_the_settings_of_a_provider_is_reported(tmp_path: Path) -> None:
    provider = {"type": "cli", "program": "sh", "timeout": -4, "idle_timeout": -1, "retries": 1, "modle": "x"}
    definition = pipeline(node(provider=provider))
    (tmp_path / "p.yaml").write_bytes(msgspec.json.encode(definition))

    async def main() -> tuple[LintResult, str]:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            with pytest.raises(DefinitionError) as caught:
                await sdk.run(definition, session="s")
            return await sdk.lint("p.yaml", "pipeline"), str(caught.value)

    found, refused = run(main())
    for said, wrong in zip(errors(found), ("`timeout`", "`idle_timeout`", "`modle`"), strict=True):
        assert wrong in said
        assert said in refused


def test_a_run_reports_all_that_prevents_it(tmp_path: Path) -> None:
    stages = [node("a", provider="codex"), node("b", provider="gemini"), node("c", provider="gemini")]

    async def refused(sdk: Engine, *nodes: dict[str, Any]) -> list[str]:
        with pytest.raises(ProviderUnusable) as caught:
            await sdk.run(pipeline(*nodes), session="s")
        return [text.partition(".")[0] for text in str(caught.value).split("\n")]

    async def main() -> None:
        async with Engine(tmp_path, environ={**ENVIRON, "PATH": "/nowhere"}) as sdk:
            assert await refused(sdk, *stages) == ["Codex CLI not found", "Gemini CLI not found"]
            assert await refused(sdk, stages[0]) == ["Codex CLI not found"]

    run(main())


def test_what_runs_passes(tmp_path: Path) -> None:
    prepared(tmp_path, Case({}, ""))

    async def main() -> LintResult:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            return await sdk.lint("p.yaml", "pipeline")

    assert run(main()).diagnostics == ()


def test_a_setting_that_the_provider_ignores_is_a_warning(tmp_path: Path) -> None:
    engine = Engine(tmp_path, environ=ENVIRON)
    path = tmp_path / "p.yaml"
    path.write_bytes(msgspec.json.encode(pipeline(node(provider={**COMMAND, "retry": 2}))))
    linted = run(engine.lint("p.yaml", "pipeline"))
    assert linted.passed
    assert [(one.severity, one.code) for one in linted.diagnostics] == [("warning", "provider-settings")]
    assert "provider command: unknown config key `retry` is ignored" in linted.diagnostics[0].message


def test_an_error_in_the_settings_does_not_hide_a_doubtful_model(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "nodes: [{id: a, prompt: x, provider: {type: claude, model: opuss, timeout: -1}}]"
    )
    linted = Engine(tmp_path, environ=ENVIRON).definitions.lint("p.yaml", "pipeline")
    assert sorted(one.severity for one in linted.diagnostics) == ["error", "warning"]


PLACED = """\
defaults:
  model: opuss
nodes:
  - id: a
    prompt: do it
    provider: {type: claude, modle: opus}
  - id: b
    prompt: do it
    provider_config:
      timeout: soon
  - id: c
    prompt: do it
    provider: [claude, {type: command}]
  - id: d
    parallel:
      providers: [{name: claude, effort: hgih}]
      stages: [{id: x, prompt: do it}]
"""


@pytest.mark.parametrize("static", [True, False])
def test_settings_are_reported_at_their_place_also_by_a_static_lint(tmp_path: Path, static: bool) -> None:
    (tmp_path / "p.yaml").write_text(PLACED)
    engine = Engine(tmp_path, environ={**ENVIRON, "PATH": "/nowhere"})
    linted = (
        engine.definitions.lint("p.yaml", "pipeline") if static else run(engine.lint("p.yaml", "pipeline"))
    )
    found = [(one.place.line, one.place.col, one.message, one.text.strip()) for one in linted.diagnostics]
    (model, modle, timeout, command, effort) = found
    assert model[:2] == (2, 10)
    assert "claude may not know `opuss`; did you mean `opus`?" in model[2]
    assert modle == (6, 30, "provider claude: unknown config key `modle`", PLACED.splitlines()[5].strip())
    assert timeout[:2] == (10, 7)
    assert command[:3] == (13, 31, "provider command: set either `argv` or `run`")
    assert effort[:2] == (16, 34)


def test_a_provider_that_is_unusable_here_is_reported_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("nodes:\n  - id: a\n    prompt: do it\n    provider: codex\n")
    engine = Engine(tmp_path, environ={**ENVIRON, "PATH": "/nowhere"})
    (missing,) = run(engine.lint("p.yaml", "pipeline")).diagnostics
    assert (missing.code, missing.place.line, missing.place.col) == ("provider-unusable", 4, 15)
    assert missing.text == "    provider: codex"


OF_THIS_MACHINE = {
    "a missing key": (
        "{type: api, model: claude-sonnet-4-5}",
        {},
        ("not-ready", "ANTHROPIC_API_KEY is not set"),
    ),
    "a host that may not get the key": (
        "{type: claude, env: {ANTHROPIC_BASE_URL: http://10.0.0.1}}",
        {"ANTHROPIC_API_KEY": "k"},
        ("invalid-settings", "ANTHROPIC_BASE_URL"),
    ),
}


@pytest.mark.parametrize("what", OF_THIS_MACHINE)
def test_what_depends_on_the_machine_is_reported_at_the_provider(tmp_path: Path, what: str) -> None:
    provider, environ, (code, message) = OF_THIS_MACHINE[what]
    (tmp_path / "p.yaml").write_text(f"nodes:\n  - id: a\n    prompt: do it\n    provider: {provider}\n")
    put_cli(tmp_path / "bin", "claude", speaking("claude"))
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    engine = Engine(tmp_path, environ={"HOME": str(tmp_path), "PATH": path, **environ})
    found = [one for one in run(engine.lint("p.yaml", "pipeline")).diagnostics if one.code == code]
    assert [(one.place.line, one.place.col) for one in found] == [(4, 22)], found
    assert message in found[0].message
    assert found[0].text == f"    provider: {provider}"


def test_every_description_of_a_provider_is_checked_also_if_no_stage_uses_it(tmp_path: Path) -> None:
    good, bad = f"{PROVIDERS}/good.yaml", f"{PROVIDERS}/bad.yaml"
    prepared(tmp_path, Case({}, "", {good: "program: sh\n", bad: "program: sh\nlike: nosuch\n"}))

    async def main() -> list[LintResult]:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            assert (await sdk.lint("p.yaml", "pipeline")).passed
            return list(await sdk.lint_all())

    found = {linted.name: linted for linted in run(main())}
    assert found[good].passed
    assert found[bad].kind == "provider"
    (diagnostic,) = found[bad].diagnostics
    assert (diagnostic.place.file, diagnostic.place.line) == (bad, 2)


def test_a_definition_is_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(msgspec.json.encode(pipeline(node(provider=COMMAND))))
    compiled = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is compile_pipeline.__code__:
            compiled.append(event)

    async def main() -> LintResult:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            sys.setprofile(note)
            try:
                return await sdk.lint("p.yaml", "pipeline")
            finally:
                sys.setprofile(None)

    assert run(main()).passed
    assert len(compiled) == 1


def test_settings_are_a_target_of_their_own(tmp_path: Path) -> None:
    written = pipeline({"id": "a", "prompt": "do it"}, settings="orchestration")
    (tmp_path / "p.yaml").write_bytes(msgspec.json.encode(written))
    place = tmp_path / ".agentforge/config/settings.yaml"
    place.parent.mkdir(parents=True)
    place.write_text("project: {}\norchestration: {nobody_timeout: 3}\n")
    found = {
        one.kind: [said.code for said in one.diagnostics] for one in Definitions(tmp_path, ENVIRON).lint_all()
    }
    assert found == {"pipeline": [], "settings": ["unknown-key", "unknown-stage"]}

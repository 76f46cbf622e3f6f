"""Providers that a project describes in `.agentforge/providers/`."""

from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli, shown
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run, run_dir

from agentforge.app.providers.described import described_provider, read_description
from agentforge.app.providers.offers import find_described
from agentforge.definition.report import Report
from agentforge.model.errors import InvalidSettings, ProviderUnusable
from agentforge.views.results import RunResult


def describe(project: Path, name: str, text: str) -> str:
    file = project / ".agentforge/providers" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return str(file.relative_to(project))


def go(project: Path, stage: dict[str, object], **environ: str) -> RunResult:
    path = f"{project / 'bin'}:{ENVIRON['PATH']}"

    async def main() -> RunResult:
        async with engine(project, environ={"PATH": path, **environ}) as sdk:
            return await sdk.run(pipeline(stage), session="s")

    return run(main())


def test_a_project_without_any_has_none(tmp_path: Path) -> None:
    assert find_described(str(tmp_path)) == {}


def test_a_described_provider_runs_a_stage(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "my-agent")
    describe(
        tmp_path, "mine", "program: my-agent\narguments: [--depth, 3]\nmodel_arguments: [-m, '{model}']\n"
    )
    assert go(tmp_path, node(provider={"type": "mine", "model": "big"})).completed
    called = shown((iteration_dir(tmp_path) / "output.md").read_text())
    assert called["argv"] == ["--depth", "3", "-m", "big"]


def test_described_provider_keeps_to_the_budget_that_it_takes(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "my-agent", "import sys\nprint(sys.argv[1:], 'no budget left')\nsys.exit(1)\n")
    describe(
        tmp_path,
        "mine",
        "program: my-agent\nbudget_arguments: ['--usd={budget}']\npriced_models: ['big*']\n"
        "failures: {no budget left: cap_reached}\n",
    )
    result = go(tmp_path, node(provider={"type": "mine", "model": "big-1"}, limits={"cost_usd": 0.5}))
    assert [request.reason for request in result.requests] == ["spending_cap"]
    (failed,) = run_dir(tmp_path).rglob("attempt-1/output.log")
    assert "--usd=0.5" in failed.read_text()
    with pytest.raises(InvalidSettings, match="mine / small may spend: it knows no price of that model"):
        go(tmp_path, node(provider={"type": "mine", "model": "small"}, limits={"cost_usd": 0.5}))


def test_a_stage_describes_its_own_cli(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "my-agent")
    own = {"type": "cli", "program": "my-agent", "arguments": ["--depth", 3], "prompt": "argument"}
    assert go(tmp_path, node(provider=own)).completed
    called = shown((iteration_dir(tmp_path) / "output.md").read_text())
    assert called["argv"][:2] == ["--depth", "3"]
    assert called["argv"][2].startswith("do it")


def test_a_described_provider_of_a_trusted_project_overrides_a_built_in_one(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "wrapped-claude")
    describe(tmp_path, "claude", "like: claude\nprogram: wrapped-claude\nenvironment: {EXTRA: 7}\n")
    assert go(tmp_path, node(provider="claude"), AGENTFORGE_TRUST_PROJECT="1").completed
    called = shown((iteration_dir(tmp_path) / "output.md").read_text())
    assert called["argv"][0] == "--print"
    assert called["env"]["EXTRA"] == "7"


def test_a_file_may_build_on_a_known_cli(tmp_path: Path) -> None:
    file = describe(tmp_path, "fast", "like: codex\ndefault_model: gpt-5-codex-mini\ndefault_effort: low\n")
    provider = described_provider(str(tmp_path), "fast", file, {})
    assert provider.name == "fast"
    assert provider.capabilities().supports_resume


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("program: x\nargumnts: [a]\n", "2:1", "unknown key `argumnts`"),
        ("program: [x]\n", "1:10", "`program` must be text, not a list"),
        ("arguments:\n  - a\n  - {b: 1}\n", "3:5", "`arguments` must be text, got a mapping"),
        ("prompt: telepathy\n", "1:9", "`prompt` can't be 'telepathy'"),
        ("timeout: soon\n", "1:10", "`timeout` must be a number, not text"),
        ("output: xml\n", "1:1", "unknown output format 'xml'"),
        ("output: json_lines\nfields:\n  text: [a]\n", "3:9", "`fields.text` must be text, not a list"),
        ("output: json_lines\nfields:\n  txt: a\n", "3:3", "unknown field `txt`"),
        ("failures:\n  'no money': broke\n", "2:3", "`failures` can't be 'broke'"),
        ("error_patterns: ['(']\n", "1:1", "invalid regular expression"),
        ("name: other\n", "1:7", "`name` must match the file name: expected `mine`, got `other`"),
        ("like: cloude\n", "1:7", "unknown CLI 'cloude'"),
        ("model_arguments: [--model]\n", "1:1", "must contain {model}"),
        ("a: [\n", "2:1", "not valid YAML"),
        ("", "1:1", "the file is empty"),
        ("- x\n", "1:1", "must contain a mapping"),
    ],
)
def test_errors_are_reported_with_their_position(tmp_path: Path, text: str, place: str, says: str) -> None:
    file = describe(tmp_path, "mine", text)
    report = Report()
    read_description(str(tmp_path), "mine", file, report)
    first = report.diagnostics[0]
    assert first.is_error
    assert f"{first.place.line}:{first.place.col}" == place, first
    assert says in first.message
    with pytest.raises(ProviderUnusable) as unusable:
        described_provider(str(tmp_path), "mine", file, {})
    assert unusable.value.message.startswith(f"{file}:{place}: ")
    assert unusable.value.hint


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    report = Report()
    for name, text in {"one": "nope: 1\nprogram: [x]\n", "two": "also: 1\n"}.items():
        read_description(str(tmp_path), name, describe(tmp_path, name, text), report)
    assert len(report.diagnostics) == 3


def test_a_broken_file_does_not_stop_what_does_not_use_it(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "my-agent")
    describe(tmp_path, "broken", "nope: 1\n")
    describe(tmp_path, "mine", "program: my-agent\n")
    assert go(tmp_path, node(provider="mine")).completed
    with pytest.raises(ProviderUnusable, match=r"broken\.yaml:1:1: unknown key `nope`"):
        go(tmp_path, node(provider="broken"))

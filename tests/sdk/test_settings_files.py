"""Settings files as a program changes them: what is kept, what is refused, and what is in force."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import heavy

from agentforge import DefinitionError, InvalidRequest, NotPermitted, SettingsFiles
from agentforge.model.layout import PROJECT_SETTINGS

OWN, OTHER = PROJECT_SETTINGS
WRITTEN = """\
# What we use.
provider: "codex"   # since May

commands:
    # fast
    test: 'pytest -q'
notify:
  - desktop
llm:
    model: big
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def files(project: Path, **environ: str) -> SettingsFiles:
    return SettingsFiles(project, {"HOME": str(project.parent / "home"), "PATH": "/nowhere", **environ})


def put(project: Path, path: str, text: str) -> Path:
    place = project / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def test_set_keeps_comments_order_and_quotes(project: Path) -> None:
    place = put(project, OWN, WRITTEN)
    made = files(project)
    assert made.set("commands.test", "pytest -x") == str(place)
    made.set("commands.lint", "ruff check .")
    made.set("model", "small")
    made.set("orchestration.stages.build.timeout", "30")
    assert place.read_text() == (
        WRITTEN.replace("pytest -q'", "pytest -x'\n    lint: ruff check .").replace(
            "model: big", "model: small"
        )
        + "orchestration:\n    stages:\n        build:\n            timeout: 30\n"
    )


def test_the_lowest_limit_is_in_force_and_can_be_set_under_both_names(project: Path) -> None:
    put(project.parent / "home", ".config/agentforge/settings.yaml", "limits: {cost_usd: 2, daily_usd: 9}\n")
    made = files(project)
    with pytest.raises(InvalidRequest, match=r"the setting 'limits\.tokens' has no value"):
        made.get("limits.tokens")
    for key, value in (("limits.cost_usd", "5"), ("limits.tokens", "1000"), ("cost.max_daily_usd", "8")):
        made.set(key, value)
    assert made.get("limits").value == {"cost_usd": 2, "daily_usd": 8, "tokens": 1000}
    assert made.get("cost.max_daily_usd").origin == f"{OWN}:5"
    assert made.get("limits.cost_usd").origin.endswith("home/.config/agentforge/settings.yaml:1")
    with pytest.raises(DefinitionError, match="must be greater than 0"):
        made.set("limits.daily_usd", "0", user=True)


def test_a_file_of_comments_keeps_them(project: Path) -> None:
    made = files(project)
    path = made.init()
    assert path == str(project / OWN)
    template = Path(path).read_text()
    assert made.validate().passed
    made.set("pipeline", "mine")
    assert Path(path).read_text() == f"{template}\npipeline: mine\n"
    assert made.init() is None
    assert made.init(force=True) == path
    assert Path(path).read_text() == template


def test_the_file_that_exists_is_changed(project: Path) -> None:
    place = put(project, OTHER, "---\norchestration:\n  cycle_limit: 2\n")
    made = files(project)
    assert made.set("orchestration.cycle_limit", "5") == str(place)
    assert place.read_text() == "---\norchestration:\n  cycle_limit: 5\n"
    assert made.validate().files == (OTHER,)


def test_the_users_file_may_be_a_link_the_projects_may_not(project: Path) -> None:
    home = project.parent / "home"
    real = put(home, "dotfiles/settings.yaml", "")
    link = home / ".config/agentforge/settings.yaml"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert files(project).set("provider", "codex", user=True) == str(link)
    with pytest.raises(DefinitionError):
        files(project).set("network", "vpn", user=True)
    assert link.is_symlink()
    assert real.read_text() == "provider: codex\n"
    (project / ".agentforge").symlink_to(home)
    for change in (lambda one: one.set("provider", "claude"), lambda one: one.init()):
        with pytest.raises(InvalidRequest, match="a link that leads outside"):
            change(files(project))
    assert files(project).validate().files[-1] == OWN
    assert not (home / "config").exists()


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("orchestration.cycle_limit", "11", "must be from 1 to 10, got 11"),
        ("orchestration.cycle_limt", "1", "unknown key `cycle_limt`"),
        ("orchestration.token_budget.a", "101", "must be greater than 0 and at most 100"),
        ("sandbox", "vm", "invalid value `vm`"),
        ("model", "", "is empty"),
        ("provider", "[", "not valid YAML"),
        ("network", "{}", "must be text"),
    ],
)
def test_what_validate_refuses_changes_nothing(project: Path, key: str, value: str, what: str) -> None:
    place = put(project, OWN, "pipeline: x\n")
    with pytest.raises(DefinitionError) as refused:
        files(project).set(key, value)
    assert what in str(refused.value)
    assert place.read_text() == "pipeline: x\n"


@pytest.mark.parametrize("key", ["foo", "orchestration.foo", "pipeline.x.y", "provider.x"])
def test_unknown_keys_are_refused(project: Path, key: str) -> None:
    put(project, OWN, "pipeline: x\nprovider: codex\nproject: {name: x}\n")
    with pytest.raises((InvalidRequest, DefinitionError)):
        files(project).set(key, "1")


@pytest.mark.parametrize("text", ["commands: {a: 2026-13-45}\n", "commands: {a: 0o17}\nx-y: 2026-1-1\n"])
def test_what_another_reader_would_change_is_kept_or_refused(project: Path, text: str) -> None:
    place = put(project, OWN, text)
    before = in_force(project)["commands.a"][0]
    try:
        files(project).set("provider", "codex")
    except InvalidRequest:
        assert place.read_text() == text
    assert in_force(project)["commands.a"][0] == before


def test_a_file_that_is_wrong_is_not_changed(project: Path) -> None:
    place = put(project, OWN, "- a\n")
    with pytest.raises(DefinitionError, match="settings must be a mapping"):
        files(project).set("provider", "codex")
    assert place.read_text() == "- a\n"


def test_an_agent_changes_no_settings(project: Path) -> None:
    for change in (lambda one: one.set("provider", "x"), lambda one: one.init()):
        with pytest.raises(NotPermitted, match="only a person may change settings"):
            change(files(project, AGENTFORGE_ATTEMPT="a/b/c"))


def test_without_a_home_there_is_no_file_of_the_user(project: Path) -> None:
    with pytest.raises(InvalidRequest, match="folder of your settings is unknown"):
        SettingsFiles(project, {}).set("provider", "codex", user=True)


# -- what is in force


def in_force(project: Path, **environ: str) -> dict[str, tuple[Any, str]]:
    return {one.key: (one.value, one.origin) for one in files(project, **environ).show()}


def test_values_and_their_origins(project: Path) -> None:
    put(project, "go.mod", "module x\n")
    put(project, OWN, "\nmodel: big\ncommands: {test: make}\norchestration: {cycle_limit: 7}\n")
    users = put(project.parent / "home/.config", "agentforge/settings.yaml", "provider: codex\nmodel: m\n")
    found = in_force(project, AGENTFORGE_NOTIFY="desktop")
    assert found["pipeline"] == ("loop", "default")
    assert found["provider"] == ("codex", f"{users}:1")
    assert found["model"] == ("big", f"{OWN}:2")
    assert found["commands.test"] == ("make", f"{OWN}:3")
    assert found["commands.lint"] == ("go vet ./...", "detected in the project")
    assert found["notify"] == ("desktop", "AGENTFORGE_NOTIFY")
    assert found["orchestration.cycle_limit"] == (7, f"{OWN}:4")
    assert found["orchestration.planner_timeout"] == (120, "pipeline loop")
    assert in_force(project, CLAUDE_PIPELINE_PROVIDER="api")["provider"][1] == "CLAUDE_PIPELINE_PROVIDER"


@pytest.mark.parametrize(
    ("users", "own", "environ", "model"),
    [
        ("model: mine", "", {}, "mine"),
        ("model: mine", "provider: claude", {}, "mine"),
        ("model: mine", "provider: codex", {}, "gpt-5.5"),
        ("llm: {provider: openai, model: mine}", "provider: codex", {}, "mine"),
        ("{provider: codex, model: mine}", "", {"CLAUDE_PIPELINE_PROVIDER": "claude"}, "opus"),
        ("provider: codex", "", {"CLAUDE_PIPELINE_MODEL": "mine"}, "mine"),
        ("model: mine", "provider: gemini", {}, None),
    ],
)
def test_a_model_is_that_of_the_provider_in_force(
    project: Path, users: str, own: str, environ: dict[str, str], model: str | None
) -> None:
    put(project.parent / "home", ".config/agentforge/settings.yaml", f"{users}\n")
    put(project, OWN, f"{own}\n")
    shown = {one.key: one.value for one in files(project, **environ).show()}
    assert shown.get("model") == model


def test_what_the_project_may_not_say_is_not_in_force(project: Path) -> None:
    mine = "network: local\nsandbox: {type: bwrap, hidden: [a]}\nnotify: {command: say}\n"
    users = put(project.parent / "home/.config", "agentforge/settings.yaml", mine)
    own = put(project, OWN, "network: any\nsandbox: {type: bwrap, writable: [/]}\nnotify: desktop\n")
    found = in_force(project, AGENTFORGE_NETWORK="any")
    assert found["network"] == ("local", f"{users}:1")
    assert found["sandbox.type"] == ("bwrap", f"{users}:2")
    assert found["sandbox.hidden"][0] == ["a"]
    assert "sandbox.writable" not in found
    assert found["notify.command"] == ("say", f"{users}:3")
    assert "notify" not in found
    assert in_force(project, AGENTFORGE_TRUST_PROJECT="1")["notify"] == ("desktop", f"{OWN}:3")
    own.write_text("network: any\nsandbox: {type: bwrap, hidden: [a, b]}\n")
    assert files(project).get("sandbox").value == {"type": "bwrap", "hidden": ["a", "b"]}


def test_get(project: Path) -> None:
    made = files(project)
    assert made.get("orchestration.cycle_limit").value == 3
    assert made.get("llm.provider").value == "claude"
    assert made.get("orchestration.token_budget").value["planner"] == 40
    with pytest.raises(InvalidRequest, match="has no value"):
        made.get("sandbox")
    with pytest.raises(InvalidRequest, match="no setting 'sandbx'"):
        made.get("sandbx")
    put(project, OWN, "pipeline: missing\n")
    with pytest.raises(InvalidRequest):
        made.get("orchestration.cycle_limit")
    put(project, OWN, "pipeline: [\n")
    with pytest.raises(DefinitionError):
        made.show()


KEYS = {
    "pipeline": st.text(min_size=1),
    "provider": st.sampled_from(["claude", "codex", "my-own"]),
    "model": st.text(min_size=1),
    "commands.test": st.text(min_size=1),
    "commands.a.b": st.text(min_size=1),
    "network": st.sampled_from(["any", "local"]),
    "sandbox": st.sampled_from(["none", "bwrap"]),
    "orchestration.cycle_limit": st.integers(0, 12),
    "orchestration.a.b_timeout": st.integers(-1, 99),
    "orchestration.token_budget.a.b": st.integers(0, 101),
    "orchestration.stages.a.b.retry_limit": st.integers(0, 11),
    "orchestration.stages.a.require_human_approval": st.booleans(),
}


CHANGES = st.lists(
    st.sampled_from(sorted(KEYS)).flatmap(lambda key: st.tuples(st.just(key), KEYS[key])), max_size=6
)


@pytest.mark.hypothesis
@heavy
@given(CHANGES)
def test_what_is_set_is_in_force(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, Any]]
) -> None:
    project = tmp_path_factory.mktemp("project")
    made = SettingsFiles(project, {"PATH": "/nowhere"})
    done: dict[str, Any] = {}
    for key, value in changes:
        before = (project / OWN).read_bytes() if os.path.exists(project / OWN) else b""
        try:
            made.set(key, json.dumps(value))
        except (DefinitionError, InvalidRequest):
            after = (project / OWN).read_bytes() if os.path.exists(project / OWN) else b""
            assert after == before
        else:
            done[key] = value
        assert {key: made.get(key).value for key in done} == done

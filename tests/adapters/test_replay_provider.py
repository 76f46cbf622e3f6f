"""The replay provider: the contract, every step of a cassette, and what it refuses."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agentforge.adapters.providers import replay_player
from agentforge.adapters.providers.replay import ReplayConfig, ReplayProvider, load_cassette
from agentforge.adapters.providers.replay_player import NO_EXCHANGE, STEP_FAILED
from agentforge.app.providers.offers import BUILTIN
from agentforge.model.cassette import VERSION, ExchangeKind, ExchangeQuery, Say, parse_cassette
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Provider
from agentforge.testing.provider_contract import LeaveArtifacts, ProcessProviderContract, run

HEADER = {"format": "agentforge-cassette", "version": 1}
DOCUMENT = Path(__file__).parents[2] / "docs" / "cassettes.md"

Steps = list[dict[str, Any]]


def record(path: Path, *exchanges: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, *exchanges)))
    return str(path)


class TestReplayContract(ProcessProviderContract):
    @pytest.fixture
    def provider(self, secret_values: tuple[str, ...]) -> Provider:
        return ReplayProvider({**os.environ, "SOME_API_KEY": secret_values[0]})

    @pytest.fixture
    def secret_values(self) -> tuple[str, ...]:
        return ("some-key-0123456789",)

    @pytest.fixture
    def config(self, tmp_path: Path) -> dict[str, Any]:
        steps: Steps = [
            {"do": "say", "text": "hello\n"},
            {"do": "result", "value": {"summary": "said hello"}},
        ]
        return {
            "cassette": record(
                tmp_path / "quick.jsonl",
                *({"stage": "work", "iteration": number, "steps": steps} for number in range(1, 5)),
            )
        }

    @pytest.fixture
    def slow_config(self, tmp_path: Path) -> dict[str, Any]:
        steps: Steps = [{"do": "run", "argv": ["sleep", "300"]}, {"do": "sleep", "seconds": 300}]
        return {
            "cassette": record(tmp_path / "slow.jsonl", {"stage": "work", "iteration": 1, "steps": steps}),
            "allow_commands": True,
        }

    @pytest.fixture
    def leaving(self, provider: Provider, tmp_path: Path) -> LeaveArtifacts:
        def recorded(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            exchanges = (
                {"stage": "work", "iteration": 1, "attempt": attempt, "steps": leaves(artifact)}
                for attempt, artifact in enumerate((*artifacts, artifacts[-1])[:2], 1)
            )
            return provider, {"cassette": record(tmp_path / "artifacts.jsonl", *exchanges)}

        return recorded


def leaves(artifact: Any) -> Steps:
    return [{"do": "artifact", "value": artifact}, {"do": "result", "value": {"summary": "left it"}}]


class Player:
    """Plays steps in a folder of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.workdir = tmp_path / "work"
        self.workdir.mkdir()
        self.result = tmp_path / "result.json"
        self.status = tmp_path / "status.json"
        self.cassette = tmp_path / "cassette.jsonl"

    def play(self, *steps: dict[str, Any], speed: float = 0, commands: bool = True) -> ExecuteResult:
        record(self.cassette, {"stage": "work", "iteration": 1, "steps": list(steps)})
        return self.play_recorded(speed=speed, commands=commands)

    def play_recorded(self, speed: float = 0, commands: bool = True, **fields: Any) -> ExecuteResult:
        request = ExecuteRequest(
            **{
                "prompt": "",
                "model": "",
                "config": {
                    "cassette": str(self.cassette),
                    "speed": speed,
                    "allow_commands": commands,
                },
                "workdir": str(self.workdir),
                "environment": {},
                "status_path": str(self.status),
                "result_path": str(self.result),
                "stage": "work",
                **fields,
            }
        )
        return run(ReplayProvider().execute(request))

    def text(self, name: str) -> str:
        return (self.workdir / name).read_bytes().decode()


@pytest.fixture
def player(tmp_path: Path) -> Player:
    return Player(tmp_path)


def test_say_prints_its_text_unchanged(player: Player) -> None:
    result = player.play({"do": "say", "text": "\x1b[1mé"}, {"do": "say", "text": "\n→"})
    assert (result.output, result.exit_code, result.failure) == ("\x1b[1mé\n→", 0, None)


def test_files_are_written_appended_edited_and_deleted(player: Player) -> None:
    result = player.play(
        {"do": "write", "path": "a/b.txt", "text": "one\r\n"},
        {"do": "append", "path": "a/b.txt", "text": "two two\n"},
        {"do": "edit", "path": "a/b.txt", "old": "two", "new": "2"},
        {"do": "write", "path": "gone.txt", "text": ""},
        {"do": "delete", "path": "gone.txt"},
        {"do": "delete", "path": "never-there.txt"},
    )
    assert result.exit_code == 0, result.output
    assert player.text("a/b.txt") == "one\r\n2 two\n"
    assert not (player.workdir / "gone.txt").exists()


def test_playing_again_after_a_lost_attempt_ends_the_same(player: Player) -> None:
    steps: Steps = [
        {"do": "write", "path": "a.txt", "text": "x = 1\n"},
        {"do": "edit", "path": "a.txt", "old": "1", "new": "2"},
    ]
    player.play(*steps)
    record(player.cassette, {"stage": "work", "iteration": 1, "steps": steps[1:]})
    assert player.play_recorded().exit_code == 0
    assert player.text("a.txt") == "x = 2\n"


def test_an_edit_of_missing_text_fails_and_names_the_file(player: Player) -> None:
    (player.workdir / "a.txt").write_text("something else\n")
    result = player.play({"do": "edit", "path": "a.txt", "old": "old", "new": "new"})
    assert result.exit_code == STEP_FAILED
    assert result.failure is not None
    assert "step 1 (edit)" in result.failure.message
    assert "a.txt doesn't contain the text" in result.failure.message


def test_run_really_runs_in_the_workdir_and_its_output_is_echoed(player: Player) -> None:
    code = "import os, sys; print(os.getcwd()); print('e', file=sys.stderr); open('made', 'w'); sys.exit(4)"
    result = player.play(
        {"do": "say", "text": "before\n"},
        {"do": "run", "argv": ["{python}", "-uc", code], "exit_code": 4},
        {"do": "say", "text": "after\n"},
    )
    assert result.output == f"before\n{player.workdir}\ne\nafter\n"
    assert (player.workdir / "made").exists()


@pytest.mark.parametrize(
    ("recorded", "code"),
    [
        ({}, 0),
        ({"exit_code": 3}, 0),
        ({"exit_code": 0}, STEP_FAILED),
        ({"exit_code": 0, "enforce": False}, 0),
    ],
)
def test_a_recorded_exit_code_is_enforced_by_default(
    player: Player, recorded: dict[str, Any], code: int
) -> None:
    assert player.play({"do": "run", "argv": ["sh", "-c", "exit 3"], **recorded}).exit_code == code


def test_a_command_that_is_not_allowed_is_not_run(player: Player) -> None:
    refused = player.play({"do": "run", "argv": ["touch", "made"]}, commands=False).failure
    assert refused is not None
    assert "runs commands, such as `touch made`" in refused.message
    assert "set `allow_commands: true` in the provider's config" in refused.message
    options = ["--stage=work", "--iteration=1", "--speed=0", "--", str(player.cassette)]
    done = subprocess.run(
        [sys.executable, "-I", replay_player.__file__, *options],
        cwd=player.workdir,
        capture_output=True,
        check=False,
    )
    assert done.returncode == STEP_FAILED
    assert b"touch made: commands are not allowed in this replay" in done.stdout
    assert not (player.workdir / "made").exists()


@pytest.mark.parametrize("link", [".git", ".claude", ".agentforge"])
def test_no_link_leads_to_a_protected_folder(player: Player, link: str) -> None:
    (player.workdir / link).mkdir()
    (player.workdir / "link").symlink_to(link)
    for step in (
        {"do": "write", "path": "link/x", "text": "x"},
        {"do": "append", "path": "link/x", "text": "x"},
        {"do": "delete", "path": "link/x"},
    ):
        result = player.play(step)
        assert result.exit_code == STEP_FAILED
        assert f"a replay must not write below {link}" in result.output
    assert list((player.workdir / link).iterdir()) == []


def test_a_run_of_a_missing_program_fails_clearly(player: Player) -> None:
    result = player.play({"do": "run", "argv": ["no-such-program"]})
    assert result.failure is not None
    assert "no-such-program" in result.failure.message


def test_result_and_status_are_written_where_the_engine_wants_them(player: Player) -> None:
    player.play(
        {"do": "result", "value": {"summary": "é"}},
        {"do": "status", "value": {"decision": "stop"}},
        {"do": "run", "argv": ["cp", "{result}", "copy.json"], "exit_code": 0},
    )
    assert json.loads(player.result.read_text()) == json.loads(player.text("copy.json")) == {"summary": "é"}
    assert json.loads(player.status.read_text()) == {"decision": "stop"}


def test_artifact_is_written_if_the_stage_asks_for_one(player: Player, tmp_path: Path) -> None:
    steps: Steps = [
        {"do": "artifact", "value": {"steps": ["é"]}},
        {"do": "run", "argv": ["sh", "-c", "echo $0 > place", "{artifact}"], "exit_code": 0},
    ]
    record(player.cassette, {"stage": "work", "iteration": 1, "steps": steps})
    path = tmp_path / "artifact.json"
    assert player.play_recorded(artifact_path=str(path)).failure is None
    assert json.loads(path.read_text()) == {"steps": ["é"]}
    assert player.text("place").strip() == str(path)
    path.unlink()
    assert player.play_recorded().exit_code == 0
    assert player.text("place").strip() == ""


def test_exit_ends_with_its_code_and_nothing_after_it(player: Player) -> None:
    result = player.play({"do": "exit", "code": 70}, {"do": "say", "text": "never"})
    assert (result.exit_code, result.output, result.failure) == (70, "", None)


def test_speed_scales_all_waits(player: Player) -> None:
    steps: Steps = [{"do": "sleep", "seconds": 30}, {"do": "say", "text": "x", "after": 30}]
    quick = player.play(*steps, speed=0)
    assert quick.output == "x"
    assert quick.duration_ms < 60_000
    slow = player.play(*steps, speed=200)
    assert slow.duration_ms >= 300


def test_an_exchange_of_the_attempt_precedes_the_one_for_any(player: Player) -> None:
    record(
        player.cassette,
        {"stage": "work", "iteration": 1, "steps": [{"do": "say", "text": "any"}]},
        {"stage": "work", "iteration": 1, "attempt": 2, "steps": [{"do": "say", "text": "second"}]},
    )
    assert [player.play_recorded(attempt=number).output for number in (1, 2, 3)] == ["any", "second", "any"]
    cassette = load_cassette(str(player.cassette))
    found = [cassette.find(ExchangeQuery("work", 1, number)) for number in (1, 2, 3)]
    assert [exchange and exchange.attempt for exchange in found] == [None, 2, None]


def test_a_missing_exchange_names_stage_iteration_and_cassette(player: Player) -> None:
    record(player.cassette, {"stage": "work", "iteration": 1, "steps": []})
    result = player.play_recorded(stage="--other", iteration=4)
    assert result.exit_code == NO_EXCHANGE
    assert result.failure is not None
    assert result.failure.kind is FailureKind.NOT_RECORDED
    for part in ("'--other'", "iteration 4", str(player.cassette)):
        assert part in result.failure.message


def test_the_most_specific_exchange_is_played(player: Player) -> None:
    def exchange(says: str, **fields: Any) -> dict[str, Any]:
        return {"stage": "work", "iteration": 1, **fields, "steps": [{"do": "say", "text": says}]}

    record(
        player.cassette,
        exchange("any"),
        exchange("judged", kind="judge"),
        exchange("nested", node="pipeline-polish/stage-work"),
        exchange("codex", branch="codex", node="parallel-duel"),
    )
    asked: list[tuple[str, dict[str, Any]]] = [
        ("any", {}),
        ("any", {"node": "stage-work"}),
        ("any", {"node": "parallel-duel", "branch": "claude"}),
        ("codex", {"node": "parallel-duel", "branch": "codex"}),
        ("nested", {"node": "pipeline-polish/stage-work"}),
        ("judged", {"judges": True}),
    ]
    cassette = load_cassette(str(player.cassette))
    for says, fields in asked:
        assert player.play_recorded(**fields).output == says
        kind: ExchangeKind = "judge" if fields.pop("judges", False) else "work"
        found = cassette.find(ExchangeQuery("work", 1, kind=kind, **fields))
        assert found is not None
        assert found.steps == (Say(text=says),)


def test_bytes_and_programs_are_written_as_they_were(player: Player) -> None:
    content = bytes(range(256))
    result = player.play(
        {"do": "write", "path": "a.bin", "base64": base64.b64encode(content).decode()},
        {"do": "write", "path": "run.sh", "text": "#!/bin/sh\n", "executable": True},
        {"do": "result", "text": "no json"},
    )
    assert result.exit_code == 0, result.output
    assert (player.workdir / "a.bin").read_bytes() == content
    assert os.access(player.workdir / "run.sh", os.X_OK)
    assert player.result.read_text() == "no json"


def test_a_recorded_failure_is_one_of_the_same_kind_again(player: Player) -> None:
    result = player.play(
        {"do": "say", "text": "working\n"},
        {"do": "fail", "kind": "provider_rate_limited", "message": "slow down", "exit_code": 1},
    )
    assert result.output == "working\n"
    assert result.failure is not None
    assert (result.failure.kind, result.failure.message) == (FailureKind.PROVIDER_RATE_LIMITED, "slow down")
    assert result.failure.resets_at is not None, "a recorded limit is over"


def test_later_writes_of_another_branch_are_kept(player: Player) -> None:
    def writes(branch: str, text: str) -> dict[str, Any]:
        steps: Steps = [{"do": "write", "path": "shared.txt", "text": text}]
        return {"stage": "work", "iteration": 1, "node": "parallel-duel", "branch": branch, "steps": steps}

    record(player.cassette, writes("claude", "half"), writes("codex", "whole"))
    for branches in (("claude", "codex"), ("codex", "claude")):
        for branch in branches:
            assert player.play_recorded(node="parallel-duel", branch=branch).exit_code == 0
        assert player.text("shared.txt") == "whole"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"steps": [{"do": "write", "path": "a"}]}, "give either `text` or `base64`"),
        (
            {"steps": [{"do": "write", "path": "a", "text": "", "base64": ""}]},
            "give either `text` or `base64`",
        ),
        ({"steps": [{"do": "status"}]}, "give either `value` or `text`"),
        ({"steps": [{"do": "fail", "kind": "bad luck", "message": ""}]}, "bad luck"),
        ({"kind": "queue"}, "`remaining` is required"),
        ({"remaining": 2}, "`remaining` is required"),
    ],
)
def test_contradictory_steps_are_rejected(fields: dict[str, Any], says: str) -> None:
    line = {"stage": "s", "iteration": 1, **fields}
    with pytest.raises(ProviderUnusable, match=re.escape(says)):
        parse_cassette(f"{json.dumps(HEADER)}\n{json.dumps(line)}\n", "c.jsonl")


def test_symlinks_out_of_the_workdir_are_refused(player: Player, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (player.workdir / "folder").symlink_to(outside)
    (player.workdir / "file").symlink_to(outside / "new.txt")
    (player.workdir / "inner").mkdir()
    (player.workdir / "link").symlink_to("inner")
    for path in ("folder/x.txt", "file", "."):
        result = player.play({"do": "write", "path": path, "text": "escaped"})
        assert result.exit_code == STEP_FAILED
        assert "is outside the workdir" in result.output
    assert list(outside.iterdir()) == []
    assert player.play({"do": "write", "path": "link/ok.txt", "text": "fine"}).exit_code == 0


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "nul\0"])
@pytest.mark.parametrize("do", ["write", "append", "edit", "delete"])
def test_paths_out_of_the_workdir_are_refused_before_playing(path: str, do: str) -> None:
    fields = {"edit": {"old": "a", "new": "b"}, "delete": {}}.get(do, {"text": "x"})
    line = {"stage": "s", "iteration": 1, "steps": [{"do": do, "path": path, **fields}]}
    with pytest.raises(ProviderUnusable, match=r"c\.jsonl:2: .* is outside the workdir"):
        parse_cassette(f"{json.dumps(HEADER)}\n{json.dumps(line)}\n", "c.jsonl")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "c:1: empty"),
        ("hello", "c:1: .*the header must look like"),
        ('{"format": "vhs", "version": 1}', "c:1: .*format"),
        (
            '{"format": "agentforge-cassette", "version": 2}',
            rf"version 2 is not supported \(newest: {VERSION}\)",
        ),
        ('{"format": "agentforge-cassette", "version": 1, "extra": 1}', "c:1: .*extra"),
    ],
)
def test_a_wrong_header_is_refused(text: str, says: str) -> None:
    with pytest.raises(ProviderUnusable, match=says):
        parse_cassette(text, "c")


def test_every_error_of_a_cassette_is_listed_with_its_line() -> None:
    lines = [
        json.dumps(HEADER),
        "",
        "{broken",
        '{"stage": "s", "iteration": 0, "steps": []}',
        '{"stage": "s", "iteration": 1, "steps": [{"do": "say", "text": "ok"}]}',
        '{"stage": "s", "iteration": 1, "steps": [{"do": "dance"}]}',
        '{"stage": "s", "iteration": 1, "steps": [{"do": "say", "txt": "typo"}]}',
        '{"stage": "s", "iteration": 1, "steps": []}',
        '{"stage": "s", "iteration": 2, "steps": [{"do": "sleep", "seconds": -1}]}',
    ]
    with pytest.raises(ProviderUnusable) as refusal:
        parse_cassette("\n".join(lines), "c.jsonl")
    errors = refusal.value.message.split("\n")
    assert [error.split(" ")[0] for error in errors] == [f"c.jsonl:{line}:" for line in (3, 4, 6, 7, 8, 9)]
    assert "already recorded" in errors[4]


def test_a_cassette_that_cannot_be_read_is_provider_missing(player: Player) -> None:
    for break_it in (lambda: None, lambda: player.cassette.write_bytes(b"\xff\xfe")):
        break_it()
        result = player.play_recorded()
        assert result.failure is not None
        assert result.failure.kind is FailureKind.PROVIDER_MISSING
        assert str(player.cassette) in result.failure.message


def test_validate_checks_the_cassette_of_a_named_replay(tmp_path: Path) -> None:
    ReplayProvider().validate()
    with pytest.raises(ProviderUnusable, match="`cassette` is missing"):
        ReplayProvider(config={"speed": 2}).validate()
    with pytest.raises(ProviderUnusable, match="can't read the cassette"):
        ReplayProvider(config={"cassette": str(tmp_path / "none.jsonl")}).validate()


def test_the_settings_of_the_page_are_those_of_the_provider() -> None:
    example = re.search(r"```yaml\n(provider:\n  type: replay\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert example is not None
    settings = yaml.safe_load(example[1])["provider"]
    del settings["type"]
    assert set(settings) == set(ReplayConfig.__struct_fields__)
    assert msgspec.convert(settings, ReplayConfig).cassette == "session.jsonl"


def test_the_player_imports_little_and_nothing_of_the_workspace(player: Player) -> None:
    source = Path(replay_player.__file__).read_text()
    at_the_top = set(re.findall(r"^(?:import|from) ([a-z0-9_]+)", source, re.MULTILINE))
    assert at_the_top <= sys.stdlib_module_names
    for name in ("agentforge", "json", "msgspec"):
        (player.workdir / name).mkdir()
        (player.workdir / name / "__init__.py").write_text("raise SystemExit(99)\n")
    assert player.play({"do": "write", "path": "file", "text": "x"}).exit_code == 0


EXCHANGED = """
import io, json, os, sys
from itertools import count
sys.path.insert(0, sys.argv[1])
from agentforge.adapters.providers import replay_player
import agentforge.system.confined, agentforge.model.names

folder, options = sys.argv[2], sys.argv[3:]
OPERATIONS = {"open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.truncate"}
turn = seen = 0
exchanging = False

def exchange(event, arguments):
    # Called before each operation: what was resolved until then is out of date.
    global seen, exchanging
    if turn is None or exchanging or event not in OPERATIONS:
        return
    if seen == turn:
        exchanging = True
        os.rename("d", "kept")
        os.symlink("../outside", "d")
    seen += 1

for turn in count():
    place = f"{folder}/{turn}"
    os.makedirs(f"{place}/work/d")
    os.makedirs(f"{place}/outside")
    for name in ("work/d", "outside"):
        with open(f"{place}/{name}/f", "w") as file:
            file.write("old")
    child = os.fork()
    if not child:
        os.chdir(f"{place}/work")
        sys.addaudithook(exchange)
        replay_player.main(options)
        os._exit(0 if exchanging else 1)
    if os.waitpid(child, 0)[1]:
        break
"""


@pytest.mark.parametrize(
    "step",
    [
        {"do": "write", "path": "d/f", "text": "escaped", "executable": True},
        {"do": "write", "path": "d/new/f", "text": "escaped"},
        {"do": "append", "path": "d/f", "text": "escaped"},
        {"do": "edit", "path": "d/f", "old": "old", "new": "escaped"},
        {"do": "delete", "path": "d/f"},
    ],
)
def test_folder_that_is_exchanged_for_a_link_before_any_operation_leads_nowhere(
    player: Player, tmp_path: Path, step: dict[str, Any]
) -> None:
    record(player.cassette, {"stage": "work", "iteration": 1, "steps": [step]})
    options = ["--stage=work", "--iteration=1", "--speed=0", "--", str(player.cassette)]
    source = str(Path(replay_player.__file__).parents[3])
    subprocess.run([sys.executable, "-c", EXCHANGED, source, str(tmp_path / "turns"), *options], check=True)
    turns = sorted((tmp_path / "turns").iterdir())
    assert len(turns) > 2
    for turn in turns:
        outside = turn / "outside"
        assert [path.name for path in outside.iterdir()] == ["f"]
        assert ((outside / "f").read_text(), (outside / "f").stat().st_mode & 0o111) == ("old", 0)


def test_the_documented_example_plays(player: Player) -> None:
    example = re.search(r"```jsonl\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert example is not None
    player.cassette.write_text(example.group(1))
    first = player.play_recorded(stage="write", iteration=1)
    assert first.output == "Writing the greeting.\nhello\n"
    assert json.loads(player.result.read_text())["summary"] == "Wrote a greeting"
    assert player.play_recorded(stage="write", iteration=2, attempt=1).exit_code == 70
    assert player.play_recorded(stage="write", iteration=2, attempt=2).output == "good morning\n"
    assert json.loads(player.status.read_text())["decision"] == "stop"


def test_every_documented_step_and_no_other_exists() -> None:
    from agentforge.adapters.providers.replay_player import ACTIONS

    documented = set(
        re.findall(r"^\| `(\w+)` \| (?=`|\|)", DOCUMENT.read_text().partition("| `do` |")[2], re.MULTILINE)
    )
    assert documented == {*ACTIONS, "sleep"}


def test_builtin_providers_are_known_by_their_own_names() -> None:
    assert {"command", "mock", "replay"} <= set(BUILTIN)
    assert [make({"PATH": "/bin"}).name for make in BUILTIN.values()] == list(BUILTIN)

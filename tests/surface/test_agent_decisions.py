"""What only a person may decide on the command line. A new command or option must be listed here."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.app.runs.caller import DECISIONS
from agentforge.cli.main import COMMANDS, app
from agentforge.model.task import MARK

AGENT = {MARK: "another-run/0/1/1/1@5"}
BY_A_PERSON = "must be answered by a person"
WHY = ("--reason", "why")
RUN = ("run", "-p", "p.yaml", "-s")
PIPELINE = ("pipeline", "--foreground", "p.yaml")
LOOP = ("loop", "--foreground", "tidy")
DESIGN = ("design", "Add a login", "--provider", "mock")

Line = tuple[str, ...]

OF_CHANGES = ("start", "implement", "fix", "test")
"""Commands that make a tested change, or a part of it."""


def change(command: str) -> Line:
    violated = ("--artifact", "given.json") if command == "test" else ()
    return (command, "Add a login", "--provider", "mock", "--command", "test=true", *violated)


DECIDE: dict[tuple[str, str], tuple[str, Line]] = {
    ("approve", ""): (BY_A_PERSON, ("approve", "asks")),
    ("approve", "--trust"): ("trust", ("approve", "asks", "--trust")),
    ("reject", ""): (BY_A_PERSON, ("reject", "asks", "-f", "again")),
    ("reject", "--abort"): (BY_A_PERSON, ("reject", "asks", "--abort")),
    ("reject", "--trust"): ("trust", ("reject", "asks", "-f", "again", "--trust")),
    ("answer", ""): (BY_A_PERSON, ("answer", "asks", "approve")),
    ("answer", "--trust"): ("trust", ("answer", "asks", "approve", "--trust")),
    ("inbox answer", ""): (BY_A_PERSON, ("inbox", "answer", "asks", "approve")),
    ("inbox answer", "--trust"): ("trust", ("inbox", "answer", "asks", "approve", "--trust")),
    ("steer", ""): ("steer", ("steer", "asks", "text")),
    ("steer", "--trust"): ("trust", ("steer", "asks", "text", "--trust")),
    ("pause", ""): ("pause", ("pause", "asks")),
    ("pause", "--now"): ("pause", ("pause", "asks", "--now")),
    ("cancel", ""): ("cancel", ("cancel", "asks")),
    ("cancel", "--trust"): ("trust", ("cancel", "asks", "--trust")),
    ("abort", ""): ("cancel", ("abort", "asks")),
    ("abort", "--trust"): ("trust", ("abort", "asks", "--trust")),
    ("rm", ""): ("remove", ("rm", "done", "--yes")),
    ("rm", "--yes"): ("remove", ("rm", "asks", "--yes")),
    ("clean", ""): ("remove", ("clean", "--older-than", "0m", "--yes")),
    ("clean", "--yes"): ("remove", ("clean", "--older-than", "0m", "--yes")),
    ("config init", ""): ("change_settings", ("config", "init")),
    ("config init", "--force"): ("change_settings", ("config", "init", "--force")),
    ("config set", ""): ("change_settings", ("config", "set", "provider", "mock")),
    ("run", "--force"): ("force", (*RUN, "asks", "--force")),
    ("run", "--trust"): ("trust", (*RUN, "done", "--trust")),
    ("run", "--yes"): ("approve", (*RUN, "new", "--yes")),
    ("run", "--skip"): ("skip", (*RUN, "new", "--skip", "build", *WHY)),
    ("run", "--skip-check"): ("skip_checks", (*RUN, "new", "--skip-check", "test", *WHY)),
    ("pipeline", "--force"): ("force", (*PIPELINE, "asks", "--force")),
    ("pipeline", "--recompile"): ("recompile", (*PIPELINE, "failed", "--resume", "--recompile")),
    ("pipeline", "--resume"): (BY_A_PERSON, (*PIPELINE, "asks", "--resume")),
    ("pipeline", "--trust"): ("trust", (*PIPELINE, "failed", "--resume", "--trust")),
    ("pipeline", "--yes"): ("approve", (*PIPELINE, "new", "--yes")),
    ("pipeline", "--skip"): ("skip", (*PIPELINE, "new", "--skip", "build", *WHY)),
    ("pipeline", "--skip-check"): ("skip_checks", (*PIPELINE, "new", "--skip-check", "test", *WHY)),
    ("pipeline", "--context"): ("steer", (*PIPELINE, "failed", "--resume", "--context", "text")),
    ("loop", "--force"): ("force", (*LOOP, "loop", "--force")),
    ("loop", "--recompile"): ("recompile", (*LOOP, "loop", "--resume", "--recompile")),
    ("loop", "--resume"): ("was paused on request", (*LOOP, "paused", "--resume")),
    ("loop", "--trust"): ("trust", (*LOOP, "loop", "--resume", "--trust")),
    ("loop", "--yes"): ("approve", (*LOOP, "new", "--yes")),
    ("loop", "--skip"): ("skip", (*LOOP, "new", "--skip", "build", *WHY)),
    ("loop", "--skip-check"): ("skip_checks", (*LOOP, "new", "--skip-check", "test", *WHY)),
    ("loop", "--context"): ("steer", (*LOOP, "loop", "--resume", "--context", "text")),
    ("design", "--yes"): ("approve", (*DESIGN, "--yes")),
    ("design", "--skip"): ("skip", (*DESIGN, "--skip", "intake", *WHY)),
    ("design", "--skip-check"): ("skip_checks", (*DESIGN, "--skip-check", "test", *WHY)),
    ("design", "--supervised"): ("unsupervised", (*DESIGN, "--no-supervised")),
    ("design", "--max-cost"): ("max_cost", (*DESIGN, "--max-cost", "5")),
    ("design", "--max-tokens"): ("max_tokens", (*DESIGN, "--max-tokens", "5")),
    **{
        (command, f"--{option.removeprefix('no-')}"): (decision, (*change(command), f"--{option}", *words))
        for command in OF_CHANGES
        for option, decision, words in (
            ("yes", "approve", ()),
            ("skip", "skip", ("red", *WHY)),
            ("skip-to", "skip", ("red",)),
            ("from-spec", "skip", ("SPEC-1",)),
            ("skip-check", "skip_checks", ("test", *WHY)),
            ("max-cost", "max_cost", ("5",)),
            ("max-tokens", "max_tokens", ("5",)),
            ("no-supervised", "unsupervised", ()),
        )
        if not (command in ("fix", "test") and option in ("skip-to", "from-spec"))
    },
    ("resume", ""): (BY_A_PERSON, ("resume", "asks")),
    ("resume", "SESSION"): ("was paused on request", ("resume", "paused")),
    ("resume", "--context"): ("steer", ("resume", "failed", "--context", "text")),
    ("resume", "--feedback"): (BY_A_PERSON, ("resume", "asks", "--feedback", "text")),
    ("resume", "--restart-stage"): ("restart_stage", ("resume", "failed", "--restart-stage")),
    ("resume", "--force"): ("force", ("resume", "failed", "--force")),
    ("resume", "--recompile"): ("recompile", ("resume", "failed", "--recompile")),
    ("resume", "--accept-damage"): ("accept_damage", ("resume", "failed", "--accept-damage")),
    ("resume", "--trust"): ("trust", ("resume", "failed", "--trust")),
    ("resume", "--yes"): ("approve", ("resume", "asks", "--yes")),
    ("resume", "--skip"): ("skip", ("resume", "failed", "--skip", "build", *WHY)),
    ("resume", "--skip-check"): ("skip_checks", ("resume", "failed", "--skip-check", "test", *WHY)),
    ("resume", "--detach"): ("approve", ("resume", "asks", "--yes", "--detach")),
    ("run", "--max-cost"): ("max_cost", (*RUN, "new", "--max-cost", "5")),
    ("run", "--max-tokens"): ("max_tokens", (*RUN, "new", "--max-tokens", "5")),
    ("pipeline", "--max-cost"): ("max_cost", (*PIPELINE, "new", "--max-cost", "5")),
    ("pipeline", "--max-tokens"): ("max_tokens", (*PIPELINE, "new", "--max-tokens", "5")),
    ("loop", "--max-cost"): ("max_cost", (*LOOP, "new", "--max-cost", "5")),
    ("loop", "--max-tokens"): ("max_tokens", (*LOOP, "new", "--max-tokens", "5")),
    ("run", "--supervised"): ("unsupervised", (*RUN, "new", "--no-supervised")),
    ("pipeline", "--supervised"): ("unsupervised", (*PIPELINE, "new", "--no-supervised")),
    ("loop", "--supervised"): ("unsupervised", (*LOOP, "new", "--no-supervised")),
    ("resume", "--max-cost"): ("max_cost", ("resume", "failed", "--max-cost", "5")),
    ("resume", "--max-tokens"): ("max_tokens", ("resume", "failed", "--max-tokens", "5")),
    ("recover", "--accept-damage"): ("accept_damage", ("recover", "failed", "--accept-damage")),
    ("recover", "--detach"): ("accept_damage", ("recover", "failed", "--accept-damage", "--detach")),
    ("approve", "--max-cost"): ("max_cost", ("approve", "asks", "--max-cost", "5")),
    ("approve", "--max-tokens"): ("max_tokens", ("approve", "asks", "--max-tokens", "5")),
    ("reject", "--max-cost"): ("max_cost", ("reject", "asks", "-f", "text", "--max-cost", "5")),
    ("reject", "--max-tokens"): ("max_tokens", ("reject", "asks", "-f", "text", "--max-tokens", "5")),
    ("answer", "--max-cost"): ("max_cost", ("answer", "asks", "approve", "--max-cost", "5")),
    ("answer", "--max-tokens"): ("max_tokens", ("answer", "asks", "approve", "--max-tokens", "5")),
    ("inbox answer", "--max-cost"): ("max_cost", ("inbox", "answer", "asks", "approve", "--max-cost", "5")),
    ("inbox answer", "--max-tokens"): (
        "max_tokens",
        ("inbox", "answer", "asks", "approve", "--max-tokens", "5"),
    ),
    ("recover", "--max-cost"): ("max_cost", ("recover", "failed", "--max-cost", "5")),
    ("recover", "--max-tokens"): ("max_tokens", ("recover", "failed", "--max-tokens", "5")),
    ("replay", "--allow-commands"): ("allow_commands", ("replay", "done", "--allow-commands")),
    ("replay", "--overwrite"): ("overwrite", ("replay", "done", "--overwrite")),
    ("replay", "--trust"): ("trust", ("replay", "done", "--trust")),
}
"""By command and option, or argument (empty: the command itself): why an agent is refused, and a line to
try."""

TRUST_PROJECT = "--trust-project"
"""Decides with every command that has it."""

OF_STARTS = (
    "--request --artifact --record --reason --input --provider --model --provider-config --command --local "
    "--exit-after --timeout --delivery-mode"
)
ASKED = "SESSION --request --detach"
DECIDE_NOT = {
    "*": "--project --json --log-level --log-format --background --version --help",
    "run": f"WANTED --pipeline --session --context {OF_STARTS}",
    "pipeline": f"FILE SESSION RUNS --foreground --cleaned-tmux {OF_STARTS}",
    "loop": f"STAGE SESSION MAXIMUM --foreground --cleaned-tmux {OF_STARTS}",
    "design": "REQUEST --artifact --record --reason --context --input --provider --model --provider-config "
    "--command --local --exit-after --timeout --delivery-mode --iterate",
    **{
        command: "REQUEST --artifact --record --reason --context --input --provider --model "
        "--provider-config --command --local --exit-after --timeout --delivery-mode --iterate"
        + " --skip-to --from-spec"
        * (command in ("fix", "test"))
        for command in OF_CHANGES
    },
    "resume": "--provider --cleaned-tmux --record --reason --local",
    "recover": "SESSION",
    "replay": "SOURCE --pipeline --session --speed --check",
    "demo": "--keep",
    "status": "SESSION --verbose",
    "list": "COUNT",
    "top": "--once",
    "tail": "SESSION COUNT --lines --follow --output",
    "logs": "SESSION COUNT --lines --follow",
    "attach": "SESSION",
    "show": "SESSION STAGE ITERATION --visit --output --prompt --context --diff -o "
    "--checks --failures --history --cycles --hooks --artifacts --all --items "
    "--metrics --spans --timeline --svg --evidence",
    "diff": "SESSION --stat",
    "inbox": "",
    "inbox answer": f"{ASKED} ANSWER --reason",
    "inbox show": "SESSION --request --verbose",
    "approve": ASKED,
    "reject": f"{ASKED} --feedback",
    "answer": f"{ASKED} ANSWER --reason",
    "steer": "WORDS",
    "pause": "SESSION --reason",
    "cancel": "SESSION --reason",
    "abort": "SESSION --reason",
    "init": "NAME --from --yes --agent --test",
    "config": "",
    "config init": "--user",
    "config get": "KEY",
    "config set": "KEY VALUE --user",
    "config show": "--origin",
    "config validate": "",
    "lint": "KIND NAME --strict --static",
    "dry-run": "WORDS --pipeline --session --request --artifact --force --record --yes --skip-check --skip "
    "--reason --trust --input --provider --model --provider-config --context --command --local --max-cost "
    "--max-tokens --supervised --exit-after --timeout --delivery-mode",
    "graph": "PIPELINE --svg",
    "schema": "KIND",
    "completion": "SHELL",
    "rm": "SESSIONS",
    "clean": "--older-than --dry-run",
    "log": "",
    "log verify": "SESSION",
    "log spans": "SESSION",
    "migrate": "",
    "migrate check": "FOLDER",
    "help": "COMMAND",
    "pipelines": "--status --limit",
    **dict.fromkeys(("stages", "providers", "doctor", "version"), ""),
}
"""Options and arguments that decide nothing for a person, by command: they look, say what a new run is, or
add to what is refused without them. `*`: those of every command."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands with their names, and those of groups."""
    yield "", app
    context = click.Context(app)

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found
                yield from below(f"{name} {inner}", found)

    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command
        yield from below(name, command)


def named(parameter: click.Parameter) -> str:
    return (
        max(parameter.opts, key=len) if isinstance(parameter, click.Option) else str(parameter.name).upper()
    )


def test_every_option_is_listed_as_deciding_for_a_person_or_not() -> None:
    listed = {(name, "") for name in DECIDE_NOT if name != "*"} | set(DECIDE)
    listed |= {(name, option) for name, options in DECIDE_NOT.items() for option in options.split()}
    everywhere = {*DECIDE_NOT["*"].split(), TRUST_PROJECT}
    found = {(name, "") for name, _ in commands() if name}
    found |= {
        (name, option)
        for name, command in commands()
        for option in map(named, command.params)
        if option not in everywhere
    }
    assert found == {(name, option) for name, option in listed if name != "*"}
    twice = {(name, option) for name, option in DECIDE if option and option in DECIDE_NOT[name].split()}
    assert not twice


def test_every_decision_is_made_by_an_option() -> None:
    tried = {why for why, _ in DECIDE.values()} - {BY_A_PERSON, "was paused on request"}
    assert tried | {"trust_project"} == set(DECISIONS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a run in each state that an agent may find."""
    project = Project(tmp_path_factory.mktemp("decisions"))
    project.stage("tidy")
    specification = {"spec_id": "SPEC-1", "components": [{"name": "a", "type": "module"}], "test_cases": []}
    (project.root / "given.json").write_text(json.dumps(specification))
    (project.root / ".agentforge/specs").mkdir(parents=True)
    (project.root / ".agentforge/specs/SPEC-1.yaml").write_text(json.dumps(specification))
    approved = project.pipeline(f"a={WRITE_RESULT}", f"b=touch published; {WRITE_RESULT}", name="asks.yaml")
    text = (
        (project.root / approved).read_text().replace("    runs: 1\n", "    runs: 1\n    approve: true\n", 1)
    )
    (project.root / approved).write_text(text)
    assert project.call("run", "-p", approved, "-s", "asks").code == 0
    fails = project.pipeline("a=exit 3", name="fails.yaml", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", fails, "-s", "failed").code == 1
    done = project.pipeline(f"a={WRITE_RESULT}")
    assert project.call("run", "-p", done, "-s", "done", "--record").code == 0
    mock = {"MOCK_MODE": "true"}
    assert project.call(*LOOP, "loop", "1", env=mock).code == 0
    control = ".claude/pipeline-runs/paused/control"
    pause = (
        f'mkdir {control}; printf \'%s\' \'{{"action": "pause", "reason": "requested"}}\' > {control}/1.json'
    )
    stopped = project.pipeline(f"a={pause}; {WRITE_RESULT}", f"b={WRITE_RESULT}", name="paused.yaml")
    assert project.call("run", "-p", stopped, "-s", "paused").code == 0
    return project


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("command", sorted({name for name, _ in DECIDE}))
def test_agent_is_refused_what_decides_for_a_person(runs: Project, command: str) -> None:
    before = contents(runs.root)
    for (name, option), (why, line) in DECIDE.items():
        if name == command:
            refused = runs.call(*line, env=AGENT)
            assert refused.code == 1, (option, refused)
            assert DECISIONS.get(why, why) in refused.err, (option, refused)
    assert contents(runs.root) == before


def test_agent_is_refused_to_trust_a_project(runs: Project) -> None:
    before = contents(runs.root)
    lines = [name.split() for name, command in commands() if TRUST_PROJECT in map(named, command.params)]
    assert len(lines) > len(COMMANDS) / 3
    for line in lines:
        refused = runs.call(*line, TRUST_PROJECT, env=AGENT)
        assert (refused.code, DECISIONS["trust_project"] in refused.err) == (1, True), (line, refused)
    assert contents(runs.root) == before


def test_refusal_has_a_code_and_names_the_next_step(runs: Project) -> None:
    refused = runs.call("resume", "asks", "--yes", "--json", env=AGENT)
    assert refused.json["error"]["code"] == "not_permitted"
    assert "ask a person to run the command" in runs.call("rm", "done", "--yes", env=AGENT).err

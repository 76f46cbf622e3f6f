"""Every rule about what a pipeline and its stages may say: the code, and the exact line:col."""

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides

from .world import TextWorld, found, plan, stage, where

HEAD = "name: p\nnodes:\n  - id: n\n    stage: s\n"


def node(line: str) -> str:
    """A pipeline with one more line in its node; the line is the file's fifth, its key at column 5."""
    return f"{HEAD}    {line}\n"


@pytest.mark.parametrize(
    ("line", "expected", "word"),
    [
        ("runs: 0", "bad-value 5:11", "from 1"),
        ("runs: -3", "bad-value 5:11", "-3"),
        ("runs: 1.5", "bad-type 5:11", "whole number"),
        ("runs: lots", "bad-type 5:11", "`lots`"),
        ("runs: true", "bad-type 5:11", "boolean"),
        ("runs: [3]", "bad-type 5:11", "a list"),
        ("runs: 99999999999", "bad-value 5:11", "1,000,000"),
        ("runs: 99999999999999999999999999", "bad-type 5:11", "whole number"),
        ("termination: {type: fixed, iterations: 0}", "bad-value 5:44", "termination.iterations"),
        ("termination: {max: -1}", "bad-value 5:24", "termination.max"),
        ("termination: {max: x}", "bad-type 5:24", "`termination.max`"),
        ("termination: fixed", "bad-type 5:18", "mapping"),
        ("termination: {type: whatever}", "bad-value 5:25", "`whatever`"),
        ("termination: {type: fixxed}", "bad-value 5:25", "`fixxed`"),
        ("completion: sometimes", "bad-value 5:17", "`sometimes`"),
        ("delay: -1", "bad-value 5:12", "`delay`"),
        ("delay: soon", "bad-type 5:12", "number"),
        ("delay: .inf", "bad-type 5:12", "number"),
        ("delay: 1e12", "bad-value 5:12", "31,536,000"),
        ("timeout: 0", "bad-value 5:14", "greater than 0"),
        ("timeout: -5", "bad-value 5:14", "`timeout` must be greater than 0 and at most 31,536,000, got -5"),
        ("limits: {cost_usd: 1000001}", "bad-value 5:24", "at most 1,000,000, got 1000001"),
        ("approve: {timeout: -3, on_timeout: wait}", "bad-value 5:24", "greater than 0"),
        ("idle_timeout: 0", "bad-value 5:19", "`idle_timeout`"),
        ("idle_timeout: {}", "bad-type 5:19", "a mapping"),
        ("retry: 3", "bad-type 5:12", "mapping"),
        ("retry: {max_attempts: 0}", "bad-value 5:27", "retry.max_attempts"),
        ("retry: {max_attempts: 101}", "bad-value 5:27", "from 1 to 100"),
        ("retry: {stage: 11}", "bad-value 5:20", "from 0 to 10"),
        ("retry: {for: all}", "bad-value 5:18", "retry.for"),
        ("retry: {exhausted: pause}", "bad-value 5:24", "retry.exhausted"),
        ("retry: {max_attempts: 2.5}", "bad-type 5:27", "whole number"),
        ("retry: {initial_delay: -1}", "bad-value 5:28", "retry.initial_delay"),
        ("retry: {multiplier: 0.5}", "bad-value 5:25", "retry.multiplier"),
        ("retry: {max_delay: -1}", "bad-value 5:24", "retry.max_delay"),
        ("guardrails: {max_runtime_seconds: 0}", "bad-value 5:39", "max_runtime_seconds"),
        ("guardrails: 5", "bad-type 5:17", "mapping"),
        ("context: [a]", "bad-type 5:14", "text"),
        ("description: {}", "bad-type 5:18", "text"),
        ("output_path: []", "bad-type 5:18", "text"),
        ("output_path: ../../x", "bad-value 5:18", "outside the project"),
        ("output_path: a/../../x", "bad-value 5:18", "outside the project"),
        ("output_path: /tmp/x", "bad-value 5:18", "outside the project"),
        ("model: {}", "bad-type 5:12", "text"),
        ("commands: [a]", "bad-type 5:15", "mapping"),
        ("commands: {test: [a]}", "bad-type 5:22", "`commands.test`"),
        ("commands: {test: }", "bad-type 5:", "`commands.test`"),
        ("provider: {argv: [x]}", "missing-key 5:15", "`type`"),
        ("provider: {type: [x]}", "bad-type 5:22", "`type`"),
        ("provider: ''", "bad-value 5:15", "empty"),
        ("provider: {type: command, weight: .nan}", "bad-value 5:39", "JSON"),
        ("provider_config: 3", "bad-type 5:22", "mapping"),
        ("inputs: here", "bad-type 5:13", "mapping"),
        ("provider: []", "missing-key 5:15", "empty list"),
        ("provider: [claude, {model: x}]", "missing-key 5:24", "`type`"),
        ("provider: [claude, [codex]]", "bad-type 5:24", "text"),
        ("on_limit: later", "bad-value 5:15", "`later`"),
        ("on_limit: {do: later}", "bad-value 5:20", "`later`"),
        ("on_limit: {max_wait: -1}", "bad-value 5:26", "on_limit.max_wait"),
        ("on_limit: [wait]", "bad-type 5:15", "text"),
        ("semantics: twice", "bad-value 5:16", "`twice`"),
        ("sandbox: jail", "bad-value 5:14", "`jail`"),
        ("sandbox: {network: off}", "missing-key 5:14", "`type`"),
        ("sandbox: {type: bwrap, network: maybe}", "bad-type 5:37", "on or off"),
        ("sandbox: docker", "missing-key 5:14", "`image`"),
        ("sandbox: {type: none, network: off}", "bad-value 5:36", "network"),
        ("sandbox: {type: none, hidden: [.env]}", "bad-value 5:36", "hidden"),
    ],
)
def test_bad_values_of_a_node(line: str, expected: str, word: str) -> None:
    (diagnostic,) = found(node(line))
    assert where(diagnostic).startswith(expected)
    assert word in diagnostic.message
    assert diagnostic.is_error
    assert diagnostic.text == f"    {line}"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("workspace: worktree", "workspace"),
        ("network: local", "network"),
        ("setup: make", "setup"),
    ],
)
def test_unsupported_keys_are_refused_not_ignored(line: str, key: str) -> None:
    (diagnostic,) = found(node(line))
    assert where(diagnostic) == "unsupported 5:5"
    assert diagnostic.message == f"`{key}` is not supported yet"
    assert diagnostic.is_error


@pytest.mark.parametrize("key", ["workspace", "setup"])
def test_keys_of_later_work_are_refused_in_pipelines_and_stages(key: str) -> None:
    (diagnostic,) = found(f"{key}: x\n{HEAD}")
    assert where(diagnostic) == "unsupported 1:1"
    (diagnostic,) = found(HEAD, stage("s", f"{key}: x\n"))
    assert where(diagnostic) == "unsupported 2:1"
    assert diagnostic.place.file == ".claude/stages/s/stage.yaml"


def test_a_mistake_of_a_stage_that_its_node_overrides_is_not_reported() -> None:
    files = stage("s", "termination: {type: items}\n")
    assert found(node("termination: {type: fixed, iterations: 2}"), files) == []
    (diagnostic,) = found(HEAD, files)
    assert where(diagnostic) == "missing-key 2:21"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("sandbx: bwrap", "sandbox"),
        ("contxt: x", "context"),
        ("Runs: 3", "runs"),
        ("time_out: 5", "timeout"),
        ("idle-timeout:", "idle_timeout"),
        ("Sandbox: bwrap", "sandbox"),
        ("SANDBOX: bwrap", "sandbox"),
    ],
)
def test_a_misspelled_key_is_an_error_that_names_the_known_one(line: str, meant: str) -> None:
    (diagnostic,) = found(node(line))
    key = line.partition(":")[0]
    assert where(diagnostic) == "unknown-key 5:5"
    assert diagnostic.message == f"unknown key `{key}` in node"
    assert diagnostic.hint == f"did you mean `{meant}`?"
    assert diagnostic.is_error


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("{id: b, sandbx: bwrap, parallel: {providers: [x], stages: [{id: s, prompt: hi}]}}", "sandbx"),
        ("{id: b, parallel: {sandbx: bwrap, providers: [x], stages: [{id: s, prompt: hi}]}}", "sandbx"),
        ("{id: b, parallel: {timeot: 5, providers: [x], stages: [{id: s, prompt: hi}]}}", "timeot"),
        ("{id: b, parallel: {netwrk: local, providers: [x], stages: [{id: s, prompt: hi}]}}", "netwrk"),
        ("{id: b, sandbx: bwrap, pipeline: other}", "sandbx"),
    ],
)
def test_a_misspelled_key_is_also_an_error_where_the_key_itself_is_refused(written: str, key: str) -> None:
    """Otherwise a misspelling would be ignored where the key is not."""
    diagnostics = [one for one in found(f"name: p\nnodes:\n  - {written}\n") if key in one.message]
    (diagnostic,) = diagnostics
    assert (diagnostic.code, diagnostic.is_error) == ("unknown-key", True)
    assert diagnostic.hint.startswith("did you mean `")


@pytest.mark.parametrize("key", ["sandbox", "timeout", "idle_timeout", "retry", "semantics", "on_limit"])
def test_a_setting_of_stages_in_a_block_is_an_error(key: str) -> None:
    block = f"{{{key}: bwrap, providers: [x], stages: [{{id: s, prompt: hi}}]}}"
    (diagnostic,) = [one for one in found(f"nodes: [{{id: b, parallel: {block}}}]\n") if key in one.message]
    assert diagnostic.code == "misplaced-key"
    assert diagnostic.hint == "put it on the stages of the block"


@pytest.mark.parametrize("line", ["zzz: 1", "zzz:", "owner: me"])
def test_a_key_that_is_like_no_other_is_ignored_with_a_warning(line: str) -> None:
    (diagnostic,) = found(node(line))
    key = line.partition(":")[0]
    assert where(diagnostic) == "unknown-key 5:5"
    assert diagnostic.message == f"unknown key `{key}` in node is ignored"
    assert diagnostic.hint.startswith("known keys: approve, artifact, check_before, ")
    assert not diagnostic.is_error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"nmae: x\n{HEAD}", ["unknown-key 1:1"]),
        (f"defaults: {{provder: claude}}\n{HEAD}", ["unknown-key 1:12"]),
        (f"guardrails: {{max_runtime: 3}}\n{HEAD}", ["unknown-key 1:14"]),
        (node("retry: {attempts: 3}"), ["unknown-key 5:13"]),
        (node("guardrails: {max_seconds: 3}"), ["unknown-key 5:18"]),
        (node("sandbox: {type: bwrap, netwrok: off}"), ["unknown-key 5:28"]),
        (node("termination: {typ: fixed}"), ["unknown-key 5:19"]),
        (node("inputs: {frm: x}"), ["unknown-key 5:14"]),
    ],
)
def test_misspelt_keys_are_found_in_every_mapping(text: str, expected: list[str]) -> None:
    diagnostics = found(text)
    assert [where(diagnostic) for diagnostic in diagnostics] == expected
    assert all(diagnostic.is_error for diagnostic in diagnostics)


def test_keys_of_the_users_own_are_left_alone() -> None:
    assert found(f"x-tags: [a]\n{node('x-sandbox: {retry: 1}')}") == []


def test_a_key_of_another_kind_of_node_is_not_a_misspelling() -> None:
    """`termination` resembles `description`, but is another word."""
    (diagnostic,) = found(f"{HEAD}termination: {{type: fixed}}\n")
    assert where(diagnostic) == "unknown-key 5:1"
    assert not diagnostic.is_error


def test_unknown_key_in_stage_yaml() -> None:
    (diagnostic,) = found(HEAD, stage("s", "delya: 3\n"))
    assert where(diagnostic) == "unknown-key 2:1"
    assert diagnostic.place.file == ".claude/stages/s/stage.yaml"
    assert diagnostic.hint == "did you mean `delay`?"


def test_deprecated_stages_key_warns() -> None:
    (diagnostic,) = found("name: p\nstages:\n  - name: n\n    loop: s\n")
    assert where(diagnostic) == "deprecated-key 2:1"
    assert diagnostic.hint == "rename it to `nodes`"
    assert not diagnostic.is_error


def test_nodes_and_stages_together_are_a_conflict() -> None:
    (diagnostic,) = found(f"{HEAD}stages: [{{id: a, stage: s}}]\n")
    assert where(diagnostic) == "conflict 5:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: p\n", "empty-pipeline 1:1"),
        ("name: p\nnodes:\n", "empty-pipeline 2:1"),
        ("name: p\nnodes: []\n", "empty-pipeline 2:8"),
        ("name: p\nnodes: {a: b}\n", "bad-type 2:8"),
        ("name: p\nnodes: s\n", "bad-type 2:8"),
        ("name: p\nnodes: [s]\n", "bad-type 2:9"),
        ("name: p\nnodes: [[]]\n", "bad-type 2:9"),
        ("name: p\nnodes:\n  - stage: s\n", "missing-key 3:5"),
        ("name: p\nnodes:\n  - id: n\n", "missing-key 3:5"),
        ("name: p\nnodes:\n  - id: n\n    stage:\n", "missing-key 3:5"),
        ("name: p\nnodes:\n  - id: n\n    stage: ../s\n", "bad-value 4:12"),
        ("name: p\nnodes:\n  - id: n\n    stage: /s\n", "bad-value 4:12"),
        ("name: p\nnodes:\n  - id: n\n    stage: a//b\n", "bad-value 4:12"),
        ("name: []\nnodes:\n  - {id: n, stage: s}\n", "bad-type 1:7"),
        ("tmux: maybe\nnodes:\n  - {id: n, stage: s}\n", "bad-type 1:7"),
        ("inputs: [[a]]\nnodes:\n  - {id: n, stage: s}\n", "bad-type 1:10"),
        ("defaults: claude\nnodes:\n  - {id: n, stage: s}\n", "bad-type 1:11"),
        ("defaults: {timeout: 0}\nnodes:\n  - {id: n, stage: s}\n", "bad-value 1:21"),
        ("timeout: 0\nnodes:\n  - {id: n, stage: s}\n", "bad-value 1:10"),
        ("guardrails: {max_runtime_seconds: -1}\nnodes:\n  - {id: n, stage: s}\n", "bad-value 1:35"),
    ],
)
def test_shape_of_the_pipeline(text: str, expected: str) -> None:
    (diagnostic,) = found(text)
    assert where(diagnostic) == expected


def test_empty_pipeline_is_refused() -> None:
    assert found("nodes: []\n")[0].message.startswith("empty pipeline")


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".hidden", "a\\b", "we ird/id", "tail ", "x:y", "x" * 201, "é" * 101, "a*b"]
)
def test_node_ids_that_cannot_be_a_directory_name(name: str) -> None:
    (diagnostic,) = found(f"nodes:\n  - stage: s\n    id: '{name}'\n")
    assert where(diagnostic) == "bad-id 3:9"


@pytest.mark.parametrize("name", ["a", "7", "plan-1", "größe", "a.b", "two words", "_x", "計画"])
def test_node_ids_that_can(name: str) -> None:
    assert found(f"nodes:\n  - stage: s\n    id: {name}\n") == []


def test_duplicate_node_ids() -> None:
    text = "nodes:\n  - {id: a, stage: s}\n  - {id: b, stage: s}\n  - {id: a, stage: s}\n"
    (diagnostic,) = found(text)
    assert where(diagnostic) == "duplicate-id 4:10"
    assert "line 2" in diagnostic.message


def test_all_diagnostics_at_once_over_all_files() -> None:
    text = (
        "name: p\nnmae: x\nnodes:\n  - id: a\n    stage: nowhere\n    runs: 0\n  - id: a\n    stage: s\n"
        "    delay: -1\n    workspace: []\n  - id: c\n"
    )
    diagnostics = found(text, stage("s", "timeout: 0\n"), overrides=Overrides(inputs=("missing.md",)))
    assert [f"{d.place.file} {where(d)}" for d in diagnostics] == [
        ".claude/stages/s/stage.yaml bad-value 2:10",
        "<arguments> missing-input 1:1",
        "p.yaml unknown-key 2:1",
        "p.yaml unknown-stage 5:12",
        "p.yaml bad-value 6:11",
        "p.yaml duplicate-id 7:9",
        "p.yaml bad-value 9:12",
        "p.yaml unsupported 10:5",
        "p.yaml missing-key 11:5",
    ]


def test_a_node_with_an_unknown_stage_is_still_validated() -> None:
    text = (
        "nodes:\n  - id: a\n    stage: worx\n    provider: cluade\n    termination: {type: fixt, max: 0}\n"
        "    timeout: soon\n    inputs: {from: nobody}\n  - id: b\n    stage: worx\n"
        "    provider: [claude, codx]\n    termination: {type: judgment}\n"
    )
    diagnostics = found(text, known_providers=["claude", "codex"])
    assert [where(diagnostic) for diagnostic in diagnostics] == [
        "unknown-stage 3:12",
        "unknown-provider 4:15",
        "bad-value 5:25",
        "bad-value 5:36",
        "bad-type 6:14",
        "unknown-node 7:20",
        "unknown-stage 9:12",
        "unknown-provider 10:24",
    ]


def test_unknown_stage_causes_no_further_diagnostics() -> None:
    """Its stage.yaml could name a provider and a maximum."""
    text = "nodes:\n  - {id: a, stage: worx, termination: {type: judgment}}\n"
    assert [where(diagnostic) for diagnostic in found(text, known_providers=["mock"])] == [
        "unknown-stage 2:20"
    ]


def test_stages_of_a_block_are_validated_beside_an_unknown_one() -> None:
    text = (
        "nodes:\n  - id: a\n    parallel:\n      providers: [cluade]\n      stages:\n"
        "        - {id: x, stage: worx, termination: {type: itms}}\n"
    )
    assert [where(diagnostic) for diagnostic in found(text, known_providers=["claude"])] == [
        "unknown-provider 4:19",
        "unknown-stage 6:26",
        "bad-value 6:52",
    ]


def test_a_stage_that_two_nodes_use_is_reported_once() -> None:
    text = "nodes:\n  - {id: a, stage: s}\n  - {id: b, stage: s}\n"
    assert len(found(text, stage("s", "timeout: 0\n"))) == 1


def test_a_broken_stage_file_is_reported_where_it_is_broken() -> None:
    (diagnostic,) = found(HEAD, {".claude/stages/s/stage.yaml": "name: s\nname: t\ndelay: [\n"})
    assert diagnostic.place.file == ".claude/stages/s/stage.yaml"
    assert diagnostic.code == "syntax"


class TestProviders:
    def test_unknown_provider_is_named_with_the_closest(self) -> None:
        (diagnostic,) = found(node("provider: claud"), known_providers=["claude", "codex", "mock"])
        assert where(diagnostic) == "unknown-provider 5:15"
        assert diagnostic.hint == "did you mean `claude`? providers: claude, codex, mock"

    def test_alias_is_known(self) -> None:
        assert found(node("provider: openai"), known_providers=["codex"]) == []

    def test_mapping_form_points_at_the_type(self) -> None:
        (diagnostic,) = found(node("provider: {type: nope}"), known_providers=["claude"])
        assert where(diagnostic) == "unknown-provider 5:22"

    def test_default_provider_is_checked_too(self) -> None:
        (diagnostic,) = found(HEAD, known_providers=["mock"])
        assert where(diagnostic) == "unknown-provider 3:5"

    def test_only_the_chosen_provider_counts(self) -> None:
        text = node("provider: nope")
        assert found(text, known_providers=["mock"], overrides=Overrides(provider="mock")) == []
        (diagnostic,) = found(text, known_providers=["nope"], overrides=Overrides(provider="mokc"))
        assert diagnostic.place.file == "<arguments>"
        assert diagnostic.text == "--provider mokc"

    def test_provider_of_the_environment(self) -> None:
        (diagnostic,) = found(HEAD, known_providers=["claude"], CLAUDE_PIPELINE_PROVIDER="nope")
        assert diagnostic.place.file == "<environment>"
        assert diagnostic.text == "CLAUDE_PIPELINE_PROVIDER=nope"

    def test_without_a_list_any_name_passes(self) -> None:
        assert found(node("provider: whatever")) == []


class TestEnvironment:
    def test_bad_timestamp(self) -> None:
        (diagnostic,) = found(HEAD, COMPILE_TIMESTAMP="yesterday")
        assert diagnostic.code == "bad-value"
        assert diagnostic.text == "COMPILE_TIMESTAMP=yesterday"

    @pytest.mark.parametrize("text", ["a.md", "{}", "[1]", "["])
    def test_bad_list_of_inputs(self, text: str) -> None:
        (diagnostic,) = found(HEAD, PIPELINE_CLI_INPUTS=text)
        assert diagnostic.code == "bad-value"
        assert "JSON" in diagnostic.message


class TestInputs:
    def test_missing_input_of_the_caller_is_an_error(self) -> None:
        (diagnostic,) = found(HEAD, overrides=Overrides(inputs=("no/*.md",)))
        assert diagnostic.code == "missing-input"
        assert diagnostic.is_error
        assert diagnostic.text == "--input no/*.md"

    def test_missing_input_of_the_pipeline_is_a_warning(self) -> None:
        (diagnostic,) = found(f"inputs: [docs/a.md, nope.md]\n{HEAD}", {"docs/a.md": "a"})
        assert where(diagnostic) == "missing-input 1:21"
        assert not diagnostic.is_error

    def test_too_many_inputs_are_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TextWorld, "expand", lambda *_: None)
        overrides = Overrides(inputs=("**",))
        first, second = found(f"inputs: [docs]\n{HEAD}", overrides=overrides)
        assert (where(first), where(second)) == ("too-many-inputs 1:1", "too-many-inputs 1:10")
        assert first.is_error
        assert second.is_error


class TestSingleStage:
    @pytest.mark.parametrize("count", [0, -1, 10_000_000])
    def test_maximum_out_of_range(self, count: int) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_stage(TextWorld(stage()), "s", "session", Overrides(max_iterations=count))
        (diagnostic,) = refused.value.diagnostics
        assert diagnostic.code == "bad-value"
        assert diagnostic.text == f"s {count}"

    @pytest.mark.parametrize("name", ["../s", "", "a\0b", "/etc"])
    def test_names_that_are_not_a_stage(self, name: str) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_stage(TextWorld(stage()), name, "session")
        assert "bad-value" in {diagnostic.code for diagnostic in refused.value.diagnostics}


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("Write to ${RESULT}.\nSay ${RESLUT} and ${CTX}.", "2:5"),
        ("${RESLUT}", "1:1"),
    ],
)
def test_an_unknown_variable_in_a_prompt_file_is_reported_where_it_is(prompt: str, place: str) -> None:
    (diagnostic,) = found(HEAD, {".claude/stages/s/prompt.md": prompt})
    assert (diagnostic.place.file, where(diagnostic)) == (
        ".claude/stages/s/prompt.md",
        f"unknown-variable {place}",
    )
    assert not diagnostic.is_error
    assert diagnostic.message.startswith("unknown variable `${RESLUT}`")
    assert diagnostic.hint.startswith("did you mean `RESULT`?")
    assert diagnostic.text == prompt.splitlines()[-1]


def test_unknown_variables_are_reported_in_inline_prompts_and_blocks() -> None:
    inline = "nodes: [{id: a, prompt: 'x ${SESION} ${lower} $HOME'}]"
    assert [where(diagnostic) for diagnostic in found(inline)] == ["unknown-variable 1:25"]
    block = "{id: b, parallel: {providers: [claude], stages: [{id: s, prompt: '${NOPE}'}]}}"
    assert [diagnostic.code for diagnostic in found(f"nodes: [{block}]")] == ["unknown-variable"]


def test_a_pipeline_that_is_not_yaml_is_refused() -> None:
    assert [where(diagnostic) for diagnostic in found("a: b: c\n")] == ["syntax 1:5"]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        *(
            (key, "the maximum number of iterations is `runs`")
            for key in ("max", "iterations", "max_iterations", "max_runs", "times", "count", "repeat")
        ),
        *((key, "use `retry.max_attempts`") for key in ("retries", "max_retries", "attempts")),
    ],
)
def test_other_names_of_runs_and_attempts_are_errors_with_ours(key: str, hint: str) -> None:
    (diagnostic,) = found(node(f"prompt: x\n    {key}: 3"))
    assert (diagnostic.severity, diagnostic.code, diagnostic.hint) == ("error", "misplaced-key", hint)
    block = f"nodes: [{{id: p, parallel: {{providers: [claude], stages: [{{id: a, prompt: x, {key}: 3}}]}}}}]"
    assert [one.hint for one in found(block)] == [hint]


DUEL = "providers: [claude], stages: [{id: a, prompt: x}]"


DUEL = "providers: [claude], stages: [{id: a, prompt: x}]"


@pytest.mark.parametrize(
    ("text", "runs", "retries"),
    [
        ("nodes: [{id: a, pipeline: refine, KEY: 3}]", "how often the pipeline", "stage of that pipeline"),
        (f"nodes: [{{id: p, KEY: 3, parallel: {{{DUEL}}}}}]", "`runs` on the stages", "on the stages"),
        (f"nodes: [{{id: p, parallel: {{KEY: 3, {DUEL}}}}}]", "`runs` on the stages", "on the stages"),
        ("KEY: 3\nnodes: [{id: a, prompt: x}]", "put `runs` on a node", "use `retry."),
        ("defaults: {KEY: 3}\nnodes: [{id: a, prompt: x}]", "put `runs` on a node", "use `retry."),
    ],
    ids=["nested pipeline", "parallel node", "block", "pipeline", "defaults"],
)
def test_other_names_of_runs_and_attempts_have_a_hint_everywhere(text: str, runs: str, retries: str) -> None:
    for hint, keys in ((runs, ("max", "iterations", "times")), (retries, ("retries", "attempts"))):
        for key in keys:
            wrong = [one for one in found(text.replace("KEY", key)) if one.code == "misplaced-key"]
            assert [(one.severity, hint in one.hint) for one in wrong] == [("error", True)]


@pytest.mark.parametrize(("key", "hint"), [("iterations", "`runs`"), ("retries", "`retry.max_attempts`")])
def test_other_names_of_runs_and_attempts_in_stage_yaml_are_errors_with_ours(key: str, hint: str) -> None:
    (wrong,) = found(HEAD, stage("s", f"{key}: 3\n"))
    assert (wrong.code, hint in wrong.hint) == ("misplaced-key", True)


def test_a_value_of_another_shape_is_refused_with_the_shape_that_fits() -> None:
    (wrong,) = found("nodes:\n  - {id: a, parallel: [x]}\n")
    assert wrong.hint.startswith("write `parallel: {providers: [claude, codex], stages: ")
    (wrong,) = found(node("prompt: x\n    approve: [a]"))
    keys = "`message`, `by`, `timeout`, `on_timeout`, `rounds`, `feedback`, `when`"
    assert wrong.message == f"`approve` must be true, false or a mapping with {keys}, got a list"
    (wrong,) = found(node("prompt: x\n    retry: 3"))
    assert wrong.hint == "write `retry: {max_attempts: 3}`"


@pytest.mark.parametrize("given", [Overrides(model=""), Overrides(model=" "), Overrides(provider="")])
def test_an_empty_model_or_provider_of_the_caller_is_an_error(given: Overrides) -> None:
    (wrong,) = found(node("prompt: x"), overrides=given)
    assert wrong.code == "bad-value"
    assert wrong.message in ("the model is empty", "the provider is empty")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("5", "`model` must be text, got the number `5`"),
        ("true", "`model` must be text"),
        ('""', "`model` is empty"),
    ],
)
def test_a_model_is_text(model: str, message: str) -> None:
    for text in (f"model: {model}", f"provider: {{type: claude, model: {model}}}"):
        (wrong,) = found(node(f"prompt: x\n    {text}"))
        assert wrong.is_error
        assert wrong.message.startswith(message)
    assert found(node('prompt: x\n    model: "5"')) == []


def test_a_folder_with_the_name_of_a_pipeline_file_is_called_one() -> None:
    world = TextWorld({"adir.yaml/x": ""})
    with pytest.raises(DefinitionError, match=r"`adir\.yaml` is a folder, not a pipeline file"):
        compile_pipeline(world, "adir.yaml", "session")


@pytest.mark.parametrize(
    ("written", "rule"), [("required", "required"), ("optional", "optional"), ("none", None)]
)
def test_a_pipeline_says_whether_it_takes_a_request(written: str, rule: str | None) -> None:
    assert plan(f"request: {written}\n{HEAD}").pipeline.request == rule
    inner = {"inner.yaml": f"request: {written}\nnodes:\n  - {{id: a, stage: s}}\n"}
    (diagnostic,) = found("nodes: [{id: n, pipeline: inner.yaml}]", inner)
    assert diagnostic.message == "`request` of a nested pipeline has no effect"
    assert (diagnostic.severity, diagnostic.hint) == ("warning", "set it in the outermost pipeline")


def test_another_rule_of_requests_is_an_error() -> None:
    (diagnostic,) = found(f"request: always\n{HEAD}")
    assert (where(diagnostic), diagnostic.hint) == ("bad-value 1:10", "values: none, optional, required")

"""The accepted differences from the recorded cases, with their reasons. Every other difference is a bug."""

from dataclasses import dataclass

SPECIFIED = "specified"
DEFECT = "defect of the shell engine"
DECIDED = "decided"


@dataclass(frozen=True)
class Rule:
    id: str
    kind: str
    what: str
    why: str


RULES = [
    # -- files
    Rule(
        "output-per-iteration",
        SPECIFIED,
        "`paths.output` and `${OUTPUT}` are the iteration's output.md; no output.md or run-N.md in the stage",
        "The context schema puts it there. In the shell engine all iterations of a loop named one file.",
    ),
    Rule(
        "pipeline-by-name",
        SPECIFIED,
        "`pipeline` in context.json is the pipeline's name",
        "The context schema requires it. The shell engine wrote `pipeline`, or nothing inside a block.",
    ),
    Rule(
        "provider-progress",
        SPECIFIED,
        "`paths.progress` inside a block is the provider's progress file",
        "The shell engine named a file that didn't exist; its `${PROGRESS}` was the provider's.",
    ),
    Rule(
        "stage-inputs-in-blocks",
        SPECIFIED,
        "`inputs` of a block and of its stages apply to every provider",
        "A stage may read earlier stages of its branch. The shell engine only used those of a provider.",
    ),
    Rule(
        "one-source-is-an-object",
        SPECIFIED,
        "`from_parallel` in context.json is an object for one source, and a list only if a list was written",
        "The context schema requires it. The shell engine always wrote a list.",
    ),
    Rule(
        "runs-win",
        DECIDED,
        "`runs: N` in a node overrides the iterations in stage.yaml",
        "The node is more specific than the stage; `agentforge migrate check` finds such nodes.",
    ),
    Rule(
        "no-leftovers",
        DECIDED,
        "a termination of another type drops the settings of the previous type",
        "They do not apply to the new type; the shell engine kept them.",
    ),
    Rule(
        "exact-stages",
        DEFECT,
        "`inputs.from: plan` means the stage `plan`",
        "The shell engine used the first directory whose name ends in `plan`, such as that of `re-plan`.",
    ),
    Rule(
        "sorted-inputs",
        SPECIFIED,
        "`from_initial` is sorted, each file once",
        "Inputs have the same order on every machine. The shell engine kept order and duplicates.",
    ),
    Rule(
        "runtime-limit",
        SPECIFIED,
        "`limits.remaining_seconds` counts down if a runtime limit is set",
        "The shell engine read the limit but never used it.",
    ),
    Rule(
        "plateau-is-said",
        SPECIFIED,
        "a `stop` in status.json does not suspect a plateau, and suspecting one is not a decision",
        "The decision controls the engine; the signal is an opinion about the work.",
    ),
    Rule(
        "judge-counts",
        SPECIFIED,
        "a judgment stage ends when the judge decides stop `consensus` times in a row",
        "The workers' suspicion is evidence for the judge. In the shell engine the judge could only veto.",
    ),
    Rule(
        "judge-is-quoted",
        DEFECT,
        "the completion reason quotes the judge",
        "The shell engine replaced the judge's reason by a fixed sentence.",
    ),
    Rule(
        "loop-stage-listed",
        SPECIFIED,
        "`stages` of state.json also lists the stage of a loop",
        "It contains the judge's failures, and a loop can have a judge.",
    ),
    Rule(
        "offset-is-kept",
        SPECIFIED,
        "`event_offset` and `cursor` are those of the last event in state.json",
        "The shell engine updated them only when it reconciled.",
    ),
    Rule(
        "state-follows",
        DECIDED,
        "during a run, state.json may be a second behind its log",
        "Files derived from the log are written at most once a second, and when status or node change.",
    ),
    Rule(
        "block-counts",
        DECIDED,
        "the counters and the history of state.json include a block's iterations",
        "The shell engine left both empty during a block.",
    ),
    Rule(
        "node-runs",
        SPECIFIED,
        "`node_run` counts how often a node was entered",
        "The cursor's format requires it. The shell engine wrote the iteration.",
    ),
    Rule(
        "branch-position",
        DEFECT,
        "`current_stage` of a provider's state.json counts the completed stages",
        "The shell engine always wrote 0.",
    ),
    Rule(
        "own-model",
        DECIDED,
        "a model belongs to the provider that it was set for",
        "A node with another provider gets the default model of that provider, not the stage's model.",
    ),
    Rule(
        "current-models",
        DECIDED,
        "codex without a model uses `gpt-5.5`",
        "The shell engine's default, `gpt-5.2-codex`, is no longer in codex's catalogue.",
    ),
    Rule(
        "texts",
        DECIDED,
        "commands are strings",
        '`a: 1` under `commands` becomes "1", because it is passed to a shell.',
    ),
    Rule(
        "caller-wins",
        SPECIFIED,
        "`--provider`, `--model`, `--context` and their variables override all files, also in plan.json",
        "The precedence requires it. In the shell engine node and stage.yaml overrode provider and model, "
        "and the context was in the prompt but not in the plan.",
    ),
    # -- behaviour
    Rule(
        "failure-fails",
        SPECIFIED,
        "an agent that exits with or reports an error, or writes no result, fails the run after its retries",
        "The shell engine ignored exit statuses outside of blocks, and continued with an empty result.",
    ),
    Rule(
        "finished-is-finished",
        SPECIFIED,
        "a completed session is not run again unless --force is given",
        "The shell engine started over in the same directory and overwrote the completed run's files.",
    ),
    Rule(
        "resumes-in-place",
        SPECIFIED,
        "a resume continues where the run stopped: completed providers are skipped, running agents are kept",
        "The shell engine ran all providers and the interrupted iteration again.",
    ),
    Rule(
        "passes-are-one-run",
        SPECIFIED,
        "`pipeline FILE SESSION 2` is one run whose nodes are entered twice; later passes are in run-002/",
        "The shell engine completed the session after each pass and overwrote the files of the previous one.",
    ),
    Rule(
        "delays-count",
        SPECIFIED,
        "a stage's `delay` also applies in pipelines",
        "The shell engine always waited 2 s there. In mock mode AgentForge does not wait.",
    ),
    Rule(
        "queue-asked-once",
        DECIDED,
        "the queue is read once after each iteration",
        "The shell engine read it twice; a queue that changes with each read gives another count.",
    ),
    Rule(
        "max-is-no-failure",
        DECIDED,
        "a loop that ends at its maximum exits 0",
        "A pipeline with the same stage exits 0 in both engines; loops of the shell engine exited 1.",
    ),
    Rule(
        "mock-needs-no-agents",
        SPECIFIED,
        "mock mode does not require agent programs",
        "Mock mode is for tests on machines without agents; the shell engine required them anyway.",
    ),
    Rule(
        "recorded-failure",
        DECIDED,
        "an error after the definition was accepted is recorded in a run's log, and the run can be resumed",
        "A missing `bd` is found when the queue is read. The shell engine created no run.",
    ),
    # -- accepted input
    Rule(
        "exit-codes",
        DECIDED,
        "usage and definition errors exit 2",
        "All commands share one table of exit statuses; 1 means a failed run.",
    ),
    Rule(
        "named-inputs-exist",
        DECIDED,
        "an `--input` that matches no file is refused",
        "It was given by hand, so it is a mistake; the shell engine ignored it. In a pipeline it warns.",
    ),
    Rule(
        "sources-exist",
        DECIDED,
        "`inputs` without a matching earlier node or stage are refused",
        "A misspelt `from` is a mistake; the shell engine ran the stage without that input.",
    ),
    Rule(
        "strict-words",
        DECIDED,
        "unknown arguments, options and numbers are refused",
        "The shell engine ignored them or used them as a session's name.",
    ),
    Rule(
        "checked-definition",
        DECIDED,
        "an invalid definition is refused before anything runs",
        "For example `runs: 0` or a misspelt key; the shell engine failed during the run or ignored it.",
    ),
    Rule(
        "lint-says-what-runs",
        DECIDED,
        "`lint` and `dry-run` use the compiler, and accept every name that can be run",
        "The shell engine's had other rules, and searched only the folders of the engine.",
    ),
    Rule(
        "nested-pipelines-run",
        SPECIFIED,
        "a pipeline inside a pipeline runs",
        "The shell engine compiled it and then stopped.",
    ),
    Rule(
        "lists-of-sources",
        SPECIFIED,
        "`from_parallel` may be a list in any node",
        "The input schema allows it; the shell engine refused it.",
    ),
    Rule(
        "sessions-of-any-script",
        DECIDED,
        "session names may contain letters of any script",
        "Names are normalised and validated before they are used in a path.",
    ),
    Rule(
        "stages-everywhere",
        SPECIFIED,
        "stages are found in the project, next to the pipeline, in STAGES_DIR and built in",
        "The shell engine searched one folder only.",
    ),
    Rule(
        "interrupted",
        SPECIFIED,
        "a run without an engine is `interrupted`",
        "The shell engine called it failed, unknown or crashed, depending on the remaining files.",
    ),
    Rule(
        "tail-ends",
        DECIDED,
        "`tail` ends with the run",
        "The shell engine followed forever and had to be stopped.",
    ),
    Rule(
        "repaired-log",
        DEFECT,
        "an event after a torn line is not lost, and a lost state.json is rebuilt",
        "The log is the run: state.json is derived from it.",
    ),
    Rule(
        "edited-between",
        "the recording",
        "the definition was changed between two recorded commands",
        "The case contains only the last version, so earlier commands cannot be replayed with theirs.",
    ),
]
BY_ID = {rule.id: rule for rule in RULES}

"""The allowed differences from the recorded cases. Each rule states what differs and why; any other
difference is a bug.
"""

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
    # -- content of files
    Rule(
        "output-per-iteration",
        SPECIFIED,
        "`paths.output` and `${OUTPUT}` are the iteration's output.md; no output.md or run-N.md in the stage",
        "The context schema puts it there. In the shell engine all iterations of a loop shared one file.",
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
        "The shell engine named a file that doesn't exist; its `${PROGRESS}` was the provider's.",
    ),
    Rule(
        "stage-inputs-in-blocks",
        SPECIFIED,
        "`inputs` of a block and of its stages apply to every provider",
        "A stage may read earlier stages of its branch. The shell engine only used a provider's own.",
    ),
    Rule(
        "one-source-is-an-object",
        SPECIFIED,
        "`from_parallel` in context.json is an object for one source, a list where a list was written",
        "The context schema requires it. The shell engine always wrote a list.",
    ),
    Rule(
        "runs-win",
        DECIDED,
        "`runs: N` in a node overrides the iterations in stage.yaml",
        "The node is more specific than stage.yaml; docs/migration.md describes how to find such nodes.",
    ),
    Rule(
        "no-leftovers",
        DECIDED,
        "a termination of another type drops the settings of the type before",
        "They have no meaning there; the shell engine kept them.",
    ),
    Rule(
        "exact-stages",
        DEFECT,
        "`inputs.from: plan` means the stage `plan`",
        "The shell engine took the first directory whose name ends in it, such as that of `re-plan`.",
    ),
    Rule(
        "sorted-inputs",
        SPECIFIED,
        "`from_initial` is sorted, each file once",
        "Inputs are in a stable order on every machine. The shell engine kept the order and the duplicates.",
    ),
    Rule(
        "runtime-limit",
        SPECIFIED,
        "`limits.remaining_seconds` counts down where a runtime limit is set",
        "The shell engine read the limit and never used it.",
    ),
    Rule(
        "plateau-is-said",
        SPECIFIED,
        "a `stop` in status.json doesn't signal a plateau, and a plateau signal isn't a decision",
        "The decision controls the engine; the signal is the agent's assessment of the work.",
    ),
    Rule(
        "judge-counts",
        SPECIFIED,
        "a judgment stage ends when the judge decides to stop often enough in a row",
        "The workers' suspicion is evidence for the judge. In the shell engine the judge could only veto.",
    ),
    Rule(
        "judge-is-quoted",
        DEFECT,
        "the completion reason quotes the judge",
        "The shell engine replaced the judge's reason with a fixed sentence.",
    ),
    Rule(
        "loop-stage-listed",
        SPECIFIED,
        "`stages` of state.json lists the stage of a loop, too",
        "The judge's failures are kept there, and a loop can have a judge.",
    ),
    Rule(
        "offset-is-kept",
        SPECIFIED,
        "`event_offset` and `cursor` are those of the last event that state.json shows",
        "The shell engine moved them only when it reconciled.",
    ),
    Rule(
        "state-follows",
        DECIDED,
        "while a run is running, state.json may be a second behind its log",
        "The log is the run; views of it are written at most once a second, and at every turn.",
    ),
    Rule(
        "block-counts",
        DECIDED,
        "the counters of state.json count a block's iterations, and its history has them",
        "The shell engine left both empty while a block was running.",
    ),
    Rule(
        "node-runs",
        SPECIFIED,
        "`node_run` counts how often a node was entered",
        "The cursor's format requires it. The shell engine wrote the iteration there.",
    ),
    Rule(
        "branch-position",
        DEFECT,
        "`current_stage` of a provider's state.json counts the stages that are done",
        "The shell engine always wrote 0.",
    ),
    Rule(
        "own-model",
        DECIDED,
        "a model belongs to the provider that it was written for",
        "A node that names another provider gets that one's default, not the stage's model of the first.",
    ),
    Rule(
        "texts",
        DECIDED,
        "commands are texts",
        '`a: 1` under `commands` becomes "1": it is passed to a shell.',
    ),
    Rule(
        "caller-wins",
        SPECIFIED,
        "`--provider`, `--model`, `--context` and their variables override all files, also in plan.json",
        "The precedence is specified. In the shell engine node and stage.yaml overrode provider and model, "
        "and a context reached the prompt without being in the plan.",
    ),
    # -- behavior
    Rule(
        "failure-fails",
        SPECIFIED,
        "an agent that exits with or reports an error, or leaves no result, fails the run after its retries",
        "The shell engine ignored exit codes outside of blocks, and continued with an empty result.",
    ),
    Rule(
        "finished-is-finished",
        SPECIFIED,
        "a completed session is not run again unless --force is given",
        "The shell engine started over in the same directory, over the finished run's files.",
    ),
    Rule(
        "resumes-in-place",
        SPECIFIED,
        "a resume continues where the run stopped: finished providers are skipped, running agents are kept",
        "The shell engine ran all providers again, and started the interrupted iteration again.",
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
        "The shell engine always waited 2 s there. In mock mode there is no delay.",
    ),
    Rule(
        "queue-asked-once",
        DECIDED,
        "the queue is asked once after each iteration",
        "The shell engine asked twice; a queue that changes with each call gives another count.",
    ),
    Rule(
        "max-is-no-failure",
        DECIDED,
        "a loop that ends at its maximum exits 0",
        "As a pipeline with the same stage does in both; loops of the shell engine exited 1.",
    ),
    Rule(
        "mock-needs-no-agents",
        SPECIFIED,
        "mock mode doesn't look for agent programs",
        "Mock mode is for tests on machines without agents; the shell engine checked anyway.",
    ),
    Rule(
        "recorded-failure",
        DECIDED,
        "failures after the definition was accepted are in the run's log, and the run can be resumed",
        "A missing `bd` is found when the queue is asked. The shell engine left no run.",
    ),
    # -- accepted input
    Rule(
        "exit-codes",
        DECIDED,
        "usage and definition errors exit 2",
        "One table of exit codes for all commands; 1 stays for runs that failed.",
    ),
    Rule(
        "named-inputs-exist",
        DECIDED,
        "an `--input` that matches no file is refused",
        "It is probably a typo; the shell engine continued without it. In a pipeline it is a warning.",
    ),
    Rule(
        "sources-exist",
        DECIDED,
        "`inputs` that name no earlier node or stage are refused",
        "A misspelt `from` is a mistake; the shell engine ran the stage without that input.",
    ),
    Rule(
        "strict-words",
        DECIDED,
        "unknown words, options and numbers are refused",
        "The shell engine ignored them or took them for a session's name.",
    ),
    Rule(
        "checked-definition",
        DECIDED,
        "a definition that can't work is refused before anything runs",
        "For example `runs: 0` or a misspelt key; the shell engine failed during the run or ignored it.",
    ),
    Rule(
        "lint-says-what-runs",
        DECIDED,
        "`lint` and `dry-run` report the compiler's diagnostics for all definitions that can be run",
        "Those of the shell engine had separate rules, and searched only the engine's folders.",
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
        "The input schema allows it; the shell engine's check refused it.",
    ),
    Rule(
        "sessions-of-any-script",
        DECIDED,
        "session names may have letters of any script",
        "Names are normalised and checked before they touch a path.",
    ),
    Rule(
        "stages-everywhere",
        SPECIFIED,
        "stages are found in the project, beside the pipeline, in STAGES_DIR and built in",
        "The shell engine looked in one folder only.",
    ),
    Rule(
        "interrupted",
        SPECIFIED,
        "a running run without an active engine is `interrupted`",
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
        "an event on a torn line isn't lost, and a missing state.json is restored",
        "The log is the run: state.json is only written from it.",
    ),
    Rule(
        "edited-between",
        "the recording",
        "the definition was changed between two recorded commands",
        "The case holds the last version only, so earlier commands can't be played as they were.",
    ),
]
BY_ID = {rule.id: rule for rule in RULES}

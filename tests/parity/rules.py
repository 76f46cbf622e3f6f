"""Why ours may differ from what was recorded. Each rule has a name, says what differs and why; everything
that none of them explains is a fault of ours.
"""

from dataclasses import dataclass

SPECIFIED = "specified"
DEFECT = "defect of the original"
DECIDED = "decided"


@dataclass(frozen=True)
class Rule:
    id: str
    kind: str
    what: str
    why: str


RULES = [
    # -- what the files say
    Rule(
        "output-per-iteration",
        SPECIFIED,
        "`paths.output` and `${OUTPUT}` are the iteration's output.md; no output.md or run-N.md in the stage",
        "The context schema puts it there. In the original every iteration of a loop named the same file.",
    ),
    Rule(
        "pipeline-by-name",
        SPECIFIED,
        "`pipeline` in context.json is the pipeline's name",
        "The context schema says so. The original wrote `pipeline`, or nothing inside a block.",
    ),
    Rule(
        "provider-progress",
        SPECIFIED,
        "`paths.progress` inside a block is the provider's progress file",
        "The original named a file that doesn't exist; its `${PROGRESS}` was the provider's.",
    ),
    Rule(
        "stage-inputs-in-blocks",
        SPECIFIED,
        "`inputs` of a block and of its stages count for every provider",
        "A stage may read earlier stages of its own branch. The original ignored all but a provider's own.",
    ),
    Rule(
        "one-source-is-an-object",
        SPECIFIED,
        "`from_parallel` in context.json is an object for one source, a list where a list was written",
        "The context schema says so. The original always wrote a list.",
    ),
    Rule(
        "runs-win",
        DECIDED,
        "`runs: N` in a node outranks the iterations that stage.yaml names",
        "The author of the pipeline wrote it last; docs/migration.md tells how to find such nodes.",
    ),
    Rule(
        "no-leftovers",
        DECIDED,
        "a termination of another type drops the settings of the type before",
        "They have no meaning there; the original carried them along.",
    ),
    Rule(
        "exact-stages",
        DEFECT,
        "`inputs.from: plan` means the stage `plan`",
        "The original took the first directory whose name ends in it, such as that of `re-plan`.",
    ),
    Rule(
        "sorted-inputs",
        SPECIFIED,
        "`from_initial` is sorted, each file once",
        "Inputs are in a stable order on every machine. The original kept the order and the doubles.",
    ),
    Rule(
        "runtime-limit",
        SPECIFIED,
        "`limits.remaining_seconds` counts down where a runtime limit is set",
        "The original read the limit and never used it.",
    ),
    Rule(
        "plateau-is-said",
        SPECIFIED,
        "a `stop` in status.json is no suspicion of a plateau, and a suspicion is no decision",
        "The decision is the agent's word to the engine, the signal is its opinion of the work.",
    ),
    Rule(
        "judge-counts",
        SPECIFIED,
        "a judgment stage ends when the judge says stop often enough in a row",
        "The workers' suspicion is evidence for the judge. In the original the judge could only veto.",
    ),
    Rule(
        "judge-is-quoted",
        DEFECT,
        "the completion reason quotes the judge",
        "The original overwrote what the judge said with a fixed sentence.",
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
        "The original moved them only when it reconciled.",
    ),
    Rule(
        "state-follows",
        DECIDED,
        "while a run is on, state.json may be a second behind its log",
        "The log is the run; what is derived from it is written at most once a second, and at every turn.",
    ),
    Rule(
        "block-counts",
        DECIDED,
        "the counters of state.json count a block's iterations, and its history has them",
        "The original left both empty while a block was on.",
    ),
    Rule(
        "node-runs",
        SPECIFIED,
        "`node_run` counts how often a node was entered",
        "The cursor's format says so. The original wrote the iteration there.",
    ),
    Rule(
        "branch-position",
        DEFECT,
        "`current_stage` of a provider's state.json counts the stages that are done",
        "The original always wrote 0.",
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
        "`--provider`, `--model`, `--context` and their variables outrank all files, in plan.json, too",
        "The precedence says so. In the original provider and model ranked below node and stage.yaml, and a "
        "context reached the prompt without being in the plan.",
    ),
    # -- what happens
    Rule(
        "failure-fails",
        SPECIFIED,
        "an agent that exits with or reports an error, or leaves no result, fails the run after its retries",
        "The original didn't see exit codes outside of blocks, and went on with an empty result.",
    ),
    Rule(
        "finished-is-finished",
        SPECIFIED,
        "a completed session is not run again unless --force is given",
        "The original began anew in the same directory, over the finished run's files.",
    ),
    Rule(
        "resumes-in-place",
        SPECIFIED,
        "a resume goes on where the run was: finished providers are skipped, running agents are kept",
        "The original ran all providers again, and started the interrupted iteration again.",
    ),
    Rule(
        "passes-are-one-run",
        SPECIFIED,
        "`pipeline FILE SESSION 2` is one run whose nodes are entered twice; later passes lie in run-002/",
        "The original completed the session after each pass and wrote over the files of the one before.",
    ),
    Rule(
        "delays-count",
        SPECIFIED,
        "a stage's `delay` counts in pipelines, too",
        "The original waited 2 s there, whatever the stage said. In mock mode neither is waited for here.",
    ),
    Rule(
        "queue-asked-once",
        DECIDED,
        "the queue is asked once after each iteration",
        "The original asked twice; a queue that changes with each question comes to another count.",
    ),
    Rule(
        "max-is-no-failure",
        DECIDED,
        "a loop that ends at its maximum exits 0",
        "As a pipeline with the same stage does in both; the original's loops exited 1.",
    ),
    Rule(
        "mock-needs-no-agents",
        SPECIFIED,
        "in mock mode no agent program is looked for",
        "Mock mode is for tests on machines without agents; the original checked all the same.",
    ),
    Rule(
        "recorded-failure",
        DECIDED,
        "what goes wrong after the definition was accepted is in a run's log, and can be resumed",
        "A missing `bd` is found when the queue is asked. The original left no run.",
    ),
    # -- what is accepted
    Rule(
        "exit-codes",
        DECIDED,
        "usage and definition errors exit 2",
        "One table of exit codes for all commands; 1 stays for runs that failed.",
    ),
    Rule(
        "named-inputs-exist",
        DECIDED,
        "an `--input` that fits no file is refused",
        "A person typed it, so it is a mistake; the original went on without it. In a pipeline it warns.",
    ),
    Rule(
        "sources-exist",
        DECIDED,
        "`inputs` that name no earlier node or stage are refused",
        "A misspelt `from` is a mistake; the original ran the stage without that input.",
    ),
    Rule(
        "strict-words",
        DECIDED,
        "words, options and numbers that nobody knows are refused",
        "The original ignored them or took them for a session's name.",
    ),
    Rule(
        "checked-definition",
        DECIDED,
        "a definition that can't work is refused before anything runs",
        "For example `runs: 0` or a misspelt key; the original failed in the middle of a run or ignored it.",
    ),
    Rule(
        "lint-says-what-runs",
        DECIDED,
        "`lint` and `dry-run` say what the compiler says, of everything that can be run by that name",
        "The original's had rules of their own, and looked in the engine's own folders only.",
    ),
    Rule(
        "nested-pipelines-run",
        SPECIFIED,
        "a pipeline inside a pipeline runs",
        "The original compiled it and then stopped.",
    ),
    Rule(
        "lists-of-sources",
        SPECIFIED,
        "`from_parallel` may be a list in any node",
        "The input schema says so; the original's own check refused it.",
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
        "The original looked in one folder only.",
    ),
    Rule(
        "interrupted",
        SPECIFIED,
        "a run that nobody drives any more is `interrupted`",
        "The original called it failed, unknown or crashed, depending on what was left.",
    ),
    Rule(
        "tail-ends",
        DECIDED,
        "`tail` ends with the run",
        "The original followed for ever and had to be stopped.",
    ),
    Rule(
        "repaired-log",
        DEFECT,
        "an event that followed on a torn line isn't lost, and a lost state.json costs nothing",
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

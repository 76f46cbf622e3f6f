"""How runs are started and resumed. Each row is an argument of `Engine`, and an option of the command line
if it has a help text."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict, TypeVar, cast

from msgspec import Struct

from agentforge.model.delivery import DeliveryMode
from agentforge.model.errors import InvalidRequest
from agentforge.model.facts import AnyFact
from agentforge.model.plan import Overrides
from agentforge.model.plan_limits import MAX_USD
from agentforge.model.request import MAX_SPENT_TOKENS
from agentforge.model.spending import Amount

# Typed dictionaries are how Python types keyword arguments (PEP 692): `Engine`, `SyncEngine` and the commands
# pass all of them on as `**how`. When each function on the way named each option, one more changed five
# signatures. `completed` adds what such a dictionary lacks: defaults, and an error for an unknown name.


class Argument(Struct, frozen=True):
    default: Any
    help: str = ""
    """Empty: no option of the command line."""
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    """How the option is spelled, if not like the argument."""


MAX_COST = Argument(None, "The most that the run may cost, in US dollars; at the cap, it asks.", "USD")
MAX_TOKENS = Argument(None, "The most tokens that the run may send and receive; at the cap, it asks.", "N")


class DriveOptions(TypedDict, total=False):
    """Of a start and of a resume."""

    record: Annotated[bool, Argument(False, "Record the agents' work as a cassette, for `replay`.")]
    """A recorded run stays recorded."""
    approve: Annotated[
        bool,
        Argument(False, "Approve the results of stages without asking; not checkpoints.", flags=("--yes",)),
    ]
    skip_checks: Annotated[
        Mapping[str, str],
        Argument({}, "Skip this check; requires --reason.", "NAME", flags=("--skip-check",)),
    ]
    """Reasons, by the names of checks that don't count; only for persons."""
    skip: Annotated[Mapping[str, str], Argument({}, "Skip this stage; requires --reason.", "STAGE")]
    """Reasons, by the ids of stages that aren't run; only for persons."""
    notes: Annotated[Sequence[AnyFact], Argument(())]
    """Facts about the start, for the log."""


class StartOptions(DriveOptions, total=False):
    request: Annotated[
        str | None,
        Argument(None, "What you want, for pipelines that take a request; - reads it from stdin.", "TEXT"),
    ]
    artifact: Annotated[
        str | Mapping[str, Any] | None,
        Argument(None, "JSON file with the artifact that the first stages need.", "FILE"),
    ]
    """The file, or the object itself."""
    force: Annotated[bool, Argument(False, "Stop and archive any run with this name, then start over.")]


class OverrideOptions(TypedDict, total=False):
    """What overrides the definition; the plan keeps it as `Overrides`."""

    inputs: Annotated[Sequence[str], Argument((), "Input file, folder or glob.", "PATH", ("-i", "--input"))]
    provider: Annotated[str | None, Argument(None, "Provider to use (overrides the definition).", "NAME")]
    model: Annotated[str | None, Argument(None, "Model to use (overrides the definition).", "NAME")]
    provider_config: Annotated[
        Mapping[str, Any],
        Argument(
            {},
            "Provider setting (overrides the definition). The value is YAML; a.b=1 sets b within a.",
            "KEY=VALUE",
        ),
    ]
    context: Annotated[str | None, Argument(None, "Text for ${CONTEXT} in every prompt.", "TEXT")]
    commands: Annotated[
        Mapping[str, str], Argument({}, "Command for agents and checks.", "KEY=CMD", ("--command",))
    ]
    local: Annotated[
        bool, Argument(False, "Refuse providers and addresses that are not on this machine (network: local).")
    ]
    max_cost: Annotated[float | None, MAX_COST]
    """In place of `limits.cost_usd` of the pipeline and of settings; those of nodes still count."""
    max_tokens: Annotated[int | None, MAX_TOKENS]
    supervised: Annotated[
        bool | None,
        Argument(
            None,
            "Whether a person approves the result of every stage.  [default: as the pipeline says]",
            flags=("--supervised/--no-supervised",),
        ),
    ]
    exit_after: Annotated[str | None, Argument(None, "End the run after this stage.", "STAGE")]
    max_runtime: Annotated[
        float | None,
        Argument(None, "Runtime limit of the run; at the limit, it asks.", "SECONDS", ("--timeout",)),
    ]
    delivery_mode: Annotated[
        str | None,
        Argument(None, "How the change is delivered: commit, files, patch or pr.", "MODE"),
    ]
    """Adds a stage that delivers to a pipeline that has none."""
    rounds: Annotated[int | None, Argument(None)]
    """How often a result is shown for approval."""
    iterate: Annotated[bool | None, Argument(None)]
    """Whether a stage is repeated after a rejection with a text."""
    executors: Annotated[Sequence[str], Argument(())]
    """The ids of the stages that the calling program runs itself."""
    max_iterations: Annotated[int | None, Argument(None)]
    """Of a single stage."""
    orchestration: Annotated[Mapping[str, Any], Argument({})]
    """Settings below `orchestration`, by dotted keys such as `cycle_limit` and `stages.verifier.timeout`."""


class RunOptions(StartOptions, OverrideOptions, total=False):
    """Of `Engine.run`, which compiles and starts."""


class ResumeOptions(DriveOptions, total=False):
    restart_stage: Annotated[
        bool, Argument(False, "Start the current stage over, even while the run is running.")
    ]
    provider: Annotated[
        str | None,
        Argument(
            None, "With --restart-stage in a parallel block: the provider whose branch to restart.", "NAME"
        ),
    ]
    local: Annotated[
        bool, Argument(False, "Refuse providers and addresses that are not on this machine from now on.")
    ]
    max_cost: Annotated[float | None, MAX_COST]
    """For the whole run, with what it has spent; what was granted before no longer counts."""
    max_tokens: Annotated[int | None, MAX_TOKENS]
    force: Annotated[bool, Argument(False, "Stop the engine that runs it, and take over.")]
    accept_damage: Annotated[bool, Argument(False, "Continue even if the log has damaged lines.")]
    by: Annotated[str, Argument("person")]


class CapOptions(TypedDict, total=False):
    """Of what continues a run in another way than `resume`."""

    max_cost: Annotated[float | None, MAX_COST]
    max_tokens: Annotated[int | None, MAX_TOKENS]


Options = TypeVar("Options", bound=Mapping[str, object])


def arguments_of(kind: type[Any]) -> dict[str, Argument]:
    """The rows of such a dictionary by name; those that all have in common are the last."""
    rows = {name: hint.__metadata__[0] for name, hint in kind.__annotations__.items()}
    return dict(sorted(rows.items(), key=lambda row: row[0] in DriveOptions.__annotations__))


def completed(kind: type[Options], given: Options) -> Options:
    """With the defaults of what is missing. Raises TypeError for an unknown name, as other calls do."""
    rows = arguments_of(kind)
    for name in given:
        if name not in rows:
            raise TypeError(f"unexpected keyword argument {name!r}: expected one of {', '.join(rows)}")
    return cast(Options, {**{name: row.default for name, row in rows.items()}, **given})


def overrides_of(given: OverrideOptions) -> Overrides:
    mine = {name: value for name, value in given.items() if name in OverrideOptions.__annotations__}
    how = completed(OverrideOptions, cast(OverrideOptions, mine))
    return Overrides(
        how["provider"],
        how["model"],
        how["context"],
        tuple(how["inputs"]),
        dict(how["commands"]),
        how["max_iterations"],
        dict(how["provider_config"]),
        how["local"],
        dict(how["orchestration"]),
        caps_of(how["max_cost"], how["max_tokens"]),
        supervised=how["supervised"],
        exit_after=how["exit_after"],
        rounds=how["rounds"],
        iterate=how["iterate"],
        max_runtime=how["max_runtime"],
        executors=tuple(how["executors"]),
        # The compiler refuses what isn't a mode.
        delivery=cast(DeliveryMode | None, how["delivery_mode"]),
    )


def caps_of(cost_usd: float | None, tokens: int | None) -> Amount | None:
    """The caps that a person sets. Raises InvalidRequest: no bad value may mean that there is none, and a log
    with a value of another type couldn't be read."""
    cost = _cap("cost", cost_usd, MAX_USD, (int, float), "a number of US dollars")
    count = _cap("tokens", tokens, MAX_SPENT_TOKENS, (int,), "a whole number")
    if cost is None and count is None:
        return None
    return Amount(None if cost is None else float(cost), None if count is None else int(count))


def _cap(name: str, cap: float | None, most: float, types: tuple[type, ...], noun: str) -> float | None:
    if cap is None:
        return None
    hint = f"correct --max-{name}, or leave it out for no cap of its own"
    if isinstance(cap, bool) or not isinstance(cap, types):
        raise InvalidRequest(f"the cap on {name} must be {noun}, got {cap!r}", hint=hint)
    if not 0 < cap <= most:  # NaN is neither.
        message = f"the cap on {name} must be greater than 0 and at most {most:,.0f}, got {cap:.15g}"
        raise InvalidRequest(message, hint=hint)
    return cap

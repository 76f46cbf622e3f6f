"""Which rule explains a difference between two files: by the file, the place in it, and a test of its own."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tests.parity.differences import MISSING, Difference

if TYPE_CHECKING:
    from tests.parity.recorded import Case


class Known(Protocol):
    """What a rule may look at beside the difference itself."""

    case: "Case"
    parted: dict[tuple[str, str], int]

    @property
    def given(self) -> dict[str, set[str]]:
        """What the caller said about `provider`, `model` and `context`."""

    @property
    def our_plan(self) -> Any: ...

    @property
    def recorded_plan(self) -> Any: ...


FAMILIES = {"claude": "claude", "codex": "gpt"}

Explains = Callable[[Difference, Known | None], bool]


def _always(difference: Difference, known: Known | None) -> bool:
    return True


def _is_missing(difference: Difference, known: Known | None) -> bool:
    return difference.ours is MISSING


def _is_added(difference: Difference, known: Known | None) -> bool:
    return difference.recorded is MISSING


def _max_is_runs(difference: Difference, known: Known | None) -> bool:
    """Ours is what the node itself says, as `runs` in our plan; recorded what stage.yaml says."""
    if known is None or not known.recorded_plan or not known.our_plan:
        return False
    index = (
        int(difference.path.split(".")[1])
        if difference.path.startswith("nodes.")
        else int(_own_stage(difference))
    )
    ours, recorded = known.our_plan["nodes"][index], known.recorded_plan["nodes"][index]
    return bool(
        ours.get("runs") == difference.ours and recorded["termination"].get("max") == difference.recorded
    )


def _is_type_change(difference: Difference, known: Known | None) -> bool:
    return difference.ours is MISSING and difference.path.endswith(
        (".min_iterations", ".consensus", ".iterations")
    )


def _same_source_unwrapped(difference: Difference, known: Known | None) -> bool:
    recorded = difference.recorded
    if not (isinstance(recorded, list) and len(recorded) == 1 and isinstance(difference.ours, dict)):
        return False
    return _holds(recorded[0], difference.ours)


def _holds(recorded: Any, ours: Any) -> bool:
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return all(key in ours and _holds(value, ours[key]) for key, value in recorded.items())
    return bool(recorded == ours)


def _sorted_once(difference: Difference, known: Known | None) -> bool:
    return isinstance(difference.recorded, list) and difference.ours == sorted(set(difference.recorded))


def _one_stage(difference: Difference, known: Known | None) -> bool:
    return difference.recorded == [] and isinstance(difference.ours, list) and len(difference.ours) == 1


def _of_other_length(difference: Difference, known: Known | None) -> bool:
    """The outputs of a stage that ran another number of iterations here."""
    parted = {node for node, _ in known.parted} if known else set()
    texts = [str(difference.recorded), str(difference.ours)]
    stages = [set(re.findall(r"/stage-(\d\d)-", text)) for text in texts]
    return (
        stages[0] == stages[1]
        and {str(int(stage)) for stage in stages[0] - {_own_stage(difference)}} <= parted
    )


def _own_stage(difference: Difference) -> str:
    found = re.search(r"stage-(\d\d)-", difference.where)
    return found[1] if found else ""


def _counts_block(difference: Difference, known: Known | None) -> bool:
    """Recorded as if nothing had been done, in a session that has a block."""
    in_block = (
        any(node.get("kind") == "parallel" for node in (known.our_plan or {}).get("nodes", []))
        if known
        else False
    )
    return in_block and (difference.recorded == 0 or isinstance(difference.recorded, list))


def _is_under_way(difference: Difference, known: Known | None) -> bool:
    """Ours shows the moment before the iteration that had just begun."""
    if difference.path.endswith("iteration"):
        return bool(difference.ours == difference.recorded - 1)
    return difference.ours is None


def _was_prepared(difference: Difference, known: Known | None) -> bool:
    return known is not None and any(moment.name.startswith("before-") for moment in known.case.moments)


def _is_later(difference: Difference, known: Known | None) -> bool:
    return bool(difference.ours > difference.recorded)


def _is_of_another_provider(difference: Difference, known: Known | None) -> bool:
    """Recorded is a model that our provider hasn't got."""
    path = difference.path.split(".")
    provider = known.our_plan["nodes"][int(path[1])]["provider"]["type"] if known else ""
    return FAMILIES.get(provider, "") != _family(difference.recorded)


def _family(model: str) -> str:
    return "gpt" if model.startswith("gpt") else "claude"


def _is_the_callers(difference: Difference, known: Known | None) -> bool:
    """Our value is the caller's override; the shell engine's is the value of the files."""
    name = {"type": "provider"}.get(key := difference.path.rpartition(".")[2], key)
    return known is not None and difference.ours in known.given.get(name, ())


def _is_of_another_stage(difference: Difference, known: Known | None) -> bool:
    """Recorded is the output of a stage whose name only ends in the one that was asked for."""
    name = difference.path.split(".")[2]
    return re.search(rf"/stage-\d\d-[^/]+-{re.escape(name)}/", str(difference.recorded)) is not None


def _to_yaml(difference: Difference, known: Known | None) -> bool:
    return isinstance(difference.ours, str) and str(difference.recorded).lower() == difference.ours


# (rule, file, path, test): the first that fits explains the difference.
IN_FILES: list[tuple[str, str, str, Explains]] = [
    ("output-per-iteration", r"context\.json$", r"^paths\.output$", _always),
    ("output-per-iteration", r"stage-[^/]+/(output|run-\d+)\.md$", r"^$", _is_missing),
    ("pipeline-by-name", r"context\.json$", r"^pipeline$", lambda d, p: d.recorded in ("pipeline", "")),
    ("provider-progress", r"parallel-.*context\.json$", r"^paths\.progress$", _always),
    ("stage-inputs-in-blocks", r"parallel-.*context\.json$", r"^inputs\.", _is_added),
    ("one-source-is-an-object", r"context\.json$", r"^inputs\.from_parallel$", _same_source_unwrapped),
    ("exact-stages", r"context\.json$", r"^inputs\.from_stage\.[^.]+", _is_of_another_stage),
    ("sorted-inputs", r"(context|plan)\.json$", r"^(inputs\.from_initial|session\.inputs)$", _sorted_once),
    ("runtime-limit", r"context\.json$", r"^limits\.remaining_seconds$", lambda d, p: d.recorded == -1),
    ("runs-win", r"plan\.json$", r"^nodes\.\d+\.termination\.max$", _max_is_runs),
    ("runs-win", r"context\.json$", r"^limits\.max_iterations$", _max_is_runs),
    ("no-leftovers", r"plan\.json$", r"^nodes\.\d+(\.stages\.\d+)?\.termination\.", _is_type_change),
    (
        "caller-wins",
        r"plan\.json$",
        r"^nodes\.\d+\.(provider\.(type|model)|(stages\.\d+\.)?context)$",
        _is_the_callers,
    ),
    ("own-model", r"plan\.json$", r"^nodes\.\d+\.provider\.model$", _is_of_another_provider),
    (
        "current-models",
        r"plan\.json$",
        r"(^|\.)model$",
        lambda d, p: (d.recorded, d.ours) == ("gpt-5.2-codex", "gpt-5.5"),
    ),
    ("texts", r"plan\.json$", r"^pipeline\.commands\.", _to_yaml),
    ("plateau-is-said", r"state\.json$", r"^history\.\d+\.signals\.plateau_suspected$", _always),
    ("plateau-is-said", r"state\.json$", r"^history\.\d+\.decision$", lambda d, p: d.ours == "continue"),
    (
        "judge-is-quoted",
        r"state\.json$",
        r"^completion_reason$",
        lambda d, p: "Judge evaluation" in d.recorded,
    ),
    ("loop-stage-listed", r"state\.json$", r"^stages$", _one_stage),
    ("offset-is-kept", r" state\.json$", r"^event_offset$", _always),
    ("offset-is-kept", r" state\.json$", r"^cursor\.iteration$", _is_later),
    ("branch-position", r"providers/[^/]+/state\.json$", r"^current_stage$", lambda d, p: d.recorded == 0),
    (
        "block-counts",
        r" state\.json$",
        r"^(iteration|iteration_completed|resume_from|history)$",
        _counts_block,
    ),
    ("state-follows", r" state\.json$", r"^(iteration|iteration_started|cursor\.iteration)$", _is_under_way),
    ("node-runs", r" state\.json$", r"^cursor\.node_run$", _always),
    ("repaired-log", r" state\.json$", r"^(history|type|iteration.*)$", _was_prepared),
    ("runs-win", r"context\.json$", r"^inputs\.", _of_other_length),
]


def explain(difference: Difference, known: Known | None) -> str | None:
    """The rule that explains a difference of files or sessions."""
    if difference.where == "sessions":
        return None
    for rule, file, path, test in IN_FILES:
        if re.search(file, difference.where) and re.search(path, difference.path) and test(difference, known):
            return rule
    return None

"""Work items have deterministic ids; a plan says which providers it needs."""

from tests.engine.plans import NOON, plan_of, stage

from agentforge.model.plan import ProviderChoice
from agentforge.model.work import End, Execute, Prepare, Wait


def test_ids_of_work_name_node_run_iteration_attempt_and_kind() -> None:
    works = (
        Prepare(0, "0", 1, 3),
        Execute(0, "0", 1, 3, 2, None, None),
        End(0, "0", 1, 3, 2),
        Wait("retry", NOON),
    )
    assert [work.id for work in works] == ["0/1/3/0/prepare", "0/1/3/2/execute", "0/1/3/2/end", "wait/retry"]


def test_plan_names_the_providers_that_a_process_needs_to_continue_it() -> None:
    plan = plan_of(stage("a"), stage("b", provider=ProviderChoice("mock", "")), stage("c"))
    assert plan.providers() == {"claude", "mock"}

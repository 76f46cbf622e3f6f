"""The table of environment variables."""

from agentforge.model.variables import GIVEN, SUBJECTS, VARIABLES


def test_no_variable_is_listed_twice() -> None:
    names = [variable.name for variable in (*VARIABLES, *GIVEN)]
    assert len(names) == len(set(names))


def test_every_subject_has_variables_and_every_switch_a_value() -> None:
    assert {variable.subject for variable in VARIABLES} == set(SUBJECTS)
    assert all(variable.values for variable in VARIABLES if variable.kind == "switch")

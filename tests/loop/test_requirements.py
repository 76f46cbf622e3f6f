"""Everything that is required of the loop is shown by a test."""

from tools import requirements_page


def test_every_requirement_has_a_test() -> None:
    shown, required = requirements_page.tests_by_requirement(), requirements_page.REQUIREMENTS
    assert [id for id in required if id not in shown] == []
    assert [id for id in shown if id not in required] == []

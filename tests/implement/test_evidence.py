"""`show --evidence`: what the engine saw, compared with the repository as it is now."""

from tests.implement.slugs import Slugs


def test_red_and_green_are_shown_with_the_ids_of_their_tests(slugs: Slugs) -> None:
    _, id = slugs.pipeline_of("implement", "Add slugify", "--exit-after", "green")
    shown = slugs.call("show", id, "--evidence")
    assert shown.code == 0, shown
    assert "Red: check test of red, which must fail, failed: 1 errors" in shown.out
    assert "Failed:   tests.test_slugify\n" in shown.out
    assert "Green: check test of green passed: 3 passed" in shown.out
    assert "tests.test_slugify::test_an_empty_text_has_a_slug" in shown.out
    assert "Not established: Nothing was delivered" in shown.out
    found = slugs.call("show", id, "--evidence", "--json").json
    assert [one["failed"] for one in found["evidence"]["red"]] == [["tests.test_slugify"]]
    assert found["differs"] == []
    assert slugs.call("show", id, "green", "--evidence").code == 2


def test_a_run_that_establishes_nothing_says_so(slugs: Slugs) -> None:
    _, id = slugs.pipeline_of("design", "Add slugify", "--yes")
    shown = slugs.call("show", id, "--evidence")
    assert shown.code == 0
    assert "Not established: No tests were seen to fail before the change." in shown.out

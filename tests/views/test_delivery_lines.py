"""What is said of a delivery, for each of its modes."""

from typing import get_args

from msgspec.structs import replace

from agentforge.model.delivery import DeliveredWork, DeliverRule, DeliveryMode
from agentforge.views.lines.deliver import delivered_place, delivered_text, rule_text

WORK = DeliveredWork("commit", "committed", commit="1a2b3c4d5e6f" + "0" * 28, branch="main", count=2)


def test_text_and_place_of_what_was_delivered() -> None:
    assert delivered_text(WORK) == "committed 2 paths as 1a2b3c4d5e6f on main"
    assert delivered_place(WORK) == f"Commit: {WORK.commit}"
    assert delivered_text(replace(WORK, status="staged", branch="")) == "staged 2 paths"
    assert delivered_text(replace(WORK, status="files")) == "left 2 paths in the workspace"
    patch = replace(WORK, status="patched", patch="run/a.patch")
    assert (delivered_text(patch), delivered_place(patch)) == (
        "wrote 2 paths to run/a.patch",
        "Patch: run/a.patch",
    )
    pull = replace(WORK, status="pull_request", url="https://host/1")
    assert (delivered_text(pull), delivered_place(pull)) == (
        "opened https://host/1 with 2 paths",
        "PR: https://host/1",
    )
    none = DeliveredWork("commit", "no_changes")
    assert (delivered_text(none), delivered_place(none)) == (
        "nothing changed, so nothing was delivered",
        "",
    )
    assert delivered_text(replace(none, status="not_delivered")) == "a replay delivers nothing"


def test_text_of_every_rule() -> None:
    modes: tuple[DeliveryMode, ...] = get_args(DeliveryMode)
    assert {mode: rule_text(DeliverRule(mode)) for mode in modes} == {
        "commit": "a commit",
        "files": "the files in the workspace",
        "patch": "a patch",
        "pr": f"a pull request from a branch {DeliverRule('pr').branch_prefix}ID",
    }
    assert rule_text(DeliverRule(auto_commit=False)) == "the change, staged"

"""What a session may be called: refused before the name touches any path."""

import unicodedata
from datetime import datetime, timedelta, timezone

import pytest

from agentforge.model.errors import InvalidSession
from agentforge.model.names import is_pipeline_id, name_problem, pipeline_id, session_name


@pytest.mark.parametrize(
    "name", ["auth", "fix-login", "a", "_x", "-x", "v1.2", "über", "日本語", "PL-2026-01-15", "a" * 64, "7"]
)
def test_usable_session_names(name: str) -> None:
    assert session_name(name) == name


def test_unicode_session_name_is_normalized() -> None:
    assert session_name(unicodedata.normalize("NFD", "über")) == "über"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "cannot be empty"),
        ("a" * 65, "too long"),
        ("a" * 300, "too long"),
        ("語" * 64 + "x", "too long"),
        ("𝔘" * 60, "too long"),
        ("../x", "must not start with '.'"),
        ("..", "must not start with '.'"),
        (".hidden", "must not start with '.'"),
        ("a/b", "must contain only"),
        ("a b", "must contain only"),
        ("a\0b", "must contain only"),
        ("a\nb", "must contain only"),
        ("auth\n", "must contain only"),
        ("$(id)", "must contain only"),
        ("\ud800", "must contain only"),
    ],
)
def test_hostile_session_names_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidSession, match=why) as caught:
        session_name(name)
    assert caught.value.hint
    assert caught.value.code == "invalid_session"


def test_time_of_an_archived_run_does_not_count_against_the_length() -> None:
    archived = "x" * 64 + ".20260102-030405-000006"
    assert session_name(archived) == archived


def test_name_of_a_folder_is_a_session_name_only_as_it_is() -> None:
    assert name_problem("auth") == ""
    assert name_problem("cafe\u0301") == "its name is not normalized"
    assert name_problem("a b") == "its name is not a session name"


def test_the_id_of_a_pipeline_has_its_time_in_utc_and_is_a_session_name() -> None:
    id = pipeline_id(datetime(2026, 1, 2, 17, 30, tzinfo=timezone(timedelta(hours=2))), "1a2b3c4d")
    assert id == session_name(id) == "PL-20260102153000-1a2b3c4d"
    assert is_pipeline_id(id)
    assert not any(map(is_pipeline_id, ("pl-1", "PL-", "PL-1.2", "design-1", "xPL-1")))

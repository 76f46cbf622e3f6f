"""Which processes belong to a mark: a table in, the members out."""

from agentforge.adapters.host.marked_tree import ProcessRow, ProcessTable, members

ME = 100


def table(*rows: tuple[int, int, int, str] | tuple[int, int, int]) -> ProcessTable:
    """pid, parent, session, and "m" for the marked; ourselves come in a terminal's session."""
    shell, me = ProcessRow(90, 1, 90, "t", False), ProcessRow(ME, 90, 90, "t", False)
    others = [ProcessRow(row[0], row[1], row[2], "t", len(row) > 3) for row in rows]
    return {row.pid: row for row in [shell, me, *others]}


def test_marked_processes_and_all_their_descendants_belong() -> None:
    looked = table((200, 1, 200, "m"), (201, 200, 201), (202, 201, 202), (300, 1, 300))
    assert set(members(looked, (), ME)) == {200, 201, 202}


def test_session_of_a_marked_leader_belongs() -> None:
    looked = table((200, 1, 200, "m"), (201, 1, 200), (202, 201, 202))
    assert set(members(looked, (), ME)) == {200, 201, 202}


def test_session_whose_leader_is_gone_belongs() -> None:
    looked = table((201, 1, 200, "m"), (202, 1, 200))
    assert set(members(looked, (), ME)) == {201, 202}


def test_session_led_by_a_stranger_does_not_belong() -> None:
    looked = table((300, 1, 300), (301, 300, 300, "m"), (302, 300, 300))
    assert set(members(looked, (), ME)) == {301}


def test_ourselves_our_ancestors_and_our_session_are_spared() -> None:
    looked = {
        1: ProcessRow(1, 0, 1, "t", True),
        90: ProcessRow(90, 1, 90, "t", True),
        ME: ProcessRow(ME, 90, 90, "t", True),
        101: ProcessRow(101, ME, 90, "t", True),
        102: ProcessRow(102, 90, 90, "t", False),
    }
    assert set(members(looked, (), ME)) == {101}


def test_what_was_known_stays_a_member_when_its_parent_is_gone() -> None:
    before = members(table((200, 1, 200, "m"), (201, 200, 201)), (), ME)
    now = table((201, 1, 201), (202, 201, 202))
    assert set(members(now, before.values(), ME)) == {201, 202}


def test_recycled_pid_is_not_a_member() -> None:
    known = [ProcessRow(201, 200, 201, "earlier", False)]
    assert members(table((201, 1, 201)), known, ME) == {}

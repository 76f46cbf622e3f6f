from prices import total


def test_empty() -> None:
    assert total([]) == 0


def test_sum() -> None:
    assert total([3, 4]) == 7

from slugs import title


def test_every_word_begins_with_a_capital() -> None:
    assert title("plum  cake") == "Plum Cake"

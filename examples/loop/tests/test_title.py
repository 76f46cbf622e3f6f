import unittest

from slugs import title


class TitleTest(unittest.TestCase):
    def test_every_word_begins_with_a_capital(self) -> None:
        assert title("plum  cake") == "Plum Cake"

import unittest

from kitchen.slug import slug


class SlugTest(unittest.TestCase):
    def test_spaces_become_hyphens(self):
        self.assertEqual(slug("Apple Pie"), "apple-pie")

"""Programs for developers: they write the pages and pictures that are made from the code."""

"""The tests that checks ran: their ids and statuses are in files of the run, named by their hashes.

The log has the hash. An agent can write to the file later, so each read compares it.
"""

from collections.abc import Sequence
from hashlib import sha256
from os.path import join

from agentforge.engine.checks.tests import MAX_TESTS_BYTES, counts_of, decoded_tests, encoded_tests
from agentforge.model.check import RanTest, TestsRan
from agentforge.model.errors import UnusableFile
from agentforge.model.layout import RunLayout
from agentforge.system import files


def keep_tests(layout: RunLayout, tests: Sequence[RanTest] | None) -> TestsRan | None:
    """None if there are none, or too many."""
    content = encoded_tests(tests) if tests is not None else None
    if tests is None or content is None:
        return None
    digest = sha256(content).hexdigest()
    path = join(layout.tests, f"{digest}.json")
    files.make_dir(layout.tests)
    files.replace(path, content, durable=True)
    for folder in (layout.tests, layout.root):
        with files.storage(folder):
            files.sync_directory(folder)
    return TestsRan(layout.relative(path), digest, counts_of(tests))


def read_tests(layout: RunLayout, ran: TestsRan) -> tuple[RanTest, ...]:
    """The tests of a check. Raises UnusableFile if their file is missing or was changed."""
    path = layout.absolute(ran.file)  # Inside of the run: the reader of the log refuses any other.
    content = files.read_bytes(path, MAX_TESTS_BYTES)
    found = decoded_tests(content) if content is not None else "it is missing"
    if content is not None and sha256(content).hexdigest() != ran.sha256:
        found = "it was changed"
    if isinstance(found, str):
        message = f"the tests of a check can't be read from {path}: {found}"
        raise UnusableFile(message, hint="restore the file and resume the run, or start over with --force")
    return found

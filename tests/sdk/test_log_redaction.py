"""No line of a log shows a secret of the engine's environment."""

import io
import logging
from collections.abc import Iterator

import pytest

from agentforge.app.redaction import RedactingFilter

KEY = "sk-0123456789"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(message)s | %(error)s", defaults={"error": None}))
    handler.addFilter(RedactingFilter({"MY_API_KEY": KEY, "HOME": "/home/somebody"}))
    logger = logging.getLogger("agentforge.test.redaction")
    logger.addHandler(handler)
    logger.propagate = False
    yield text
    logger.removeHandler(handler)


log = logging.getLogger("agentforge.test.redaction")


def test_a_secret_is_hidden_in_message_arguments_and_fields(lines: io.StringIO) -> None:
    log.warning("the agent said %s to %d", KEY, 2, extra={"error": f"refused {KEY}"})
    assert lines.getvalue() == "the agent said [secret] to 2 | refused [secret]\n"


def test_a_secret_is_hidden_in_an_exception(lines: io.StringIO) -> None:
    try:
        int(KEY)
    except ValueError:
        log.exception("provider raised")
    assert KEY not in lines.getvalue()
    assert "provider raised | ValueError: invalid literal" in lines.getvalue()
    assert "Traceback" in lines.getvalue()


def test_an_exception_without_a_secret_stays_whole(lines: io.StringIO) -> None:
    error = ValueError("no key")
    log.error("provider raised", exc_info=error)
    assert lines.getvalue() == "provider raised | None\nValueError: no key\n"


def test_other_lines_are_as_they_were(lines: io.StringIO) -> None:
    log.warning("100 %% of %s", "/home/somebody")
    assert lines.getvalue() == "100 % of /home/somebody | None\n"

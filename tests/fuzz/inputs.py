"""Inputs for the readers: bytes of the corpus with some of them deleted, repeated, exchanged or inserted."""

from collections.abc import Sequence

from hypothesis import strategies as st

TOKENS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\n",
        b"\\",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ),
    *(b"\xef\xbb\xbf", b"\r\n"),
    *(b"null", b"true", b"-1", b"1e999", b"99999999999999999999999999", b"NaN", b"0.5", b'""', b"{}", b"[]"),
    *(b"\\ud800", b"\\u0000", b"\x1b[2J", b"../", b"/etc/passwd", b"--flag", b"&a *a", b"<<: x", b"!!int"),
    *(b"[" * 3000, b'{"a":' * 3000, b"a" * 5000, b"( " * 2000, b"9999-12-31T23:59:59+14:00"),
)
MAX_BYTES = 64 * 1024


@st.composite
def inputs(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    content = draw(st.sampled_from(seeds)) if seeds else b""
    for _ in range(draw(st.integers(0, 6))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(0, 80)))
        content = content[:begin] + _instead(draw, content, content[begin:end]) + content[end:]
    return content[:MAX_BYTES]


def _instead(draw: st.DrawFn, content: bytes, part: bytes) -> bytes:
    match draw(st.integers(0, 4)):
        case 0:
            return b""
        case 1:
            return draw(st.sampled_from(TOKENS))
        case 2:
            return part * draw(st.integers(2, 20))
        case 3:
            begin = draw(st.integers(0, len(content)))
            return content[begin : begin + draw(st.integers(0, 80))]
        case _:
            return draw(st.binary(max_size=12))

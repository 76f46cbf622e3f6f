"""Built-in scripts by name."""

from msgspec.structs import replace

from agentforge.testing.model_server.script import FOREVER, Fault, Script, Shell, Turn, Write

RESULT = '{"summary": "hello.txt is written", "decision": "stop", "reason": "done"}\n'

WRITE = Script(
    (
        Turn("I write hello.txt.", (Shell("echo 'hello from the scripted model' > hello.txt"),)),
        Turn("Now the result.", (Write("{result}", RESULT),)),
        Turn("Both files are written."),
    )
)


def refusing(status: int, **more: float) -> Script:
    return replace(WRITE, faults=(Fault(status, **more),))  # type: ignore[arg-type]


SCRIPTS: dict[str, Script] = {
    "write": WRITE,
    "text": Script((Turn("Only text, and no tools."),)),
    "bad-request": refusing(400),
    "unauthorised": refusing(401),
    "forbidden": refusing(403),
    "not-found": refusing(404),
    "rate-limited": refusing(429, retry_after=1),
    "rate-limited-twice": refusing(429, times=2, retry_after=1),
    "broken": refusing(500),
    "broken-twice": refusing(500, times=2),
    "overloaded": refusing(529),
    "slow": replace(WRITE, delay=60.0),
    "dripping": replace(WRITE, drip=0.5),
    "cut-twice": replace(WRITE, cuts=2),
    "cut": replace(WRITE, cuts=FOREVER),
    "hang": replace(WRITE, hang="before"),
    "hang-within": replace(WRITE, hang="within"),
}

"""A scripted model server on loopback: real agents run against it, without an account or a network.

It speaks the wire formats that agents use, streaming and not: Anthropic Messages, OpenAI Responses, OpenAI
Chat Completions (which most local model servers speak, too) and Gemini generateContent.

    script = Script(
        turns=(
            Turn("I write the file.", (Shell("echo hello > hello.txt"),)),
            Turn("Now the result.", (Write("{result}", '{"summary": "done", "decision": "stop"}'),)),
            Turn("All done."),
        ),
        faults=(Fault(429, times=2, retry_after=1),),
    )
    with ModelServer() as server:
        base = server.url(script, run="my-test")
        ...                                          # ANTHROPIC_BASE_URL=base, or base + "/v1" for OpenAI's
        assert server.requests("my-test")[-1].status == 200

script      what the model does: turns, and what goes wrong (faults, delays, cut streams, hanging). Data: a
            JSON file holds one just as well.
turn        one answer of the model: text, and actions. The last turn of a script has no actions.
action      to write a file or run a shell command, which becomes a call of whatever tool the client offers
            for it (`binding`); or to call a tool by its name.
rule        other turns for prompts that match a pattern: several agents on one script.
value       `{name}` in an action stands for what the prompt says as `[name=value]`; `{result}` also for the
            last absolute path in it that ends in `/result.json`.
run         a segment of the path that tells the clients of one server apart: requests are counted by it, and
            found again (`ModelServer.requests`, `ModelServer.wait_for`).
side        a request that offers no tools while the script acts, such as one for a title. It is answered with
            `Script.aside`, meets no fault and isn't counted.

Which turn comes next follows from the conversation in the request alone, so that repeated requests and
resumed sessions are answered as they should be; only faults and cuts count requests. Requests are not checked
as strictly as the real services do. CONNECT is refused and recorded: with HTTPS_PROXY pointing here, a client
that wants to leave the machine is noticed (`ModelServer.strays`).

By hand: `python -m agentforge.testing.model_server --script write --port 0`.
"""

from agentforge.testing.model_server.script import (
    FOREVER,
    Action,
    Call,
    Fault,
    Rule,
    Script,
    Shell,
    Tokens,
    Turn,
    Write,
)
from agentforge.testing.model_server.scripts import SCRIPTS
from agentforge.testing.model_server.seen import SeenRequests
from agentforge.testing.model_server.server import ModelServer

__all__ = [
    "FOREVER",
    "SCRIPTS",
    "Action",
    "Call",
    "Fault",
    "ModelServer",
    "Rule",
    "Script",
    "SeenRequests",
    "Shell",
    "Tokens",
    "Turn",
    "Write",
]

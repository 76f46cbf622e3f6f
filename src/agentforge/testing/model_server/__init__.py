"""A scripted model server on loopback, to run real agents without an account or a network.

It supports the wire formats that agents use, with and without streaming: Anthropic Messages, OpenAI
Responses, OpenAI Chat Completions (also used by most local model servers) and Gemini generateContent.

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

script      the behavior of the model: turns and problems (faults, delays, cut streams, hanging). Plain data,
            also as a JSON file.
turn        one response of the model: text and actions. The last turn of a script has no actions.
action      writes a file or runs a shell command, by calling the tool that the client offers for it
            (`next_turn`); or calls a tool by its name.
rule        other turns for prompts that match a pattern: several agents can share one script.
value       `{name}` in an action is replaced by the value in the prompt's `[name=value]`; `{result}` also by
            the last absolute path in it that ends in `/result.json`, `{artifact}` in `/artifact.json`.
run         a segment of the path that identifies the client: requests are counted and looked up by it
            (`ModelServer.requests`, `ModelServer.wait_for`).
side        a request without tools although the script acts, such as one for a title. The response is
            `Script.aside`; it meets no fault and isn't counted.

The next turn depends only on the conversation in the request, so that repeated requests and resumed sessions
get the right response; only faults and cuts count requests. Requests are validated less strictly than by the
real services. CONNECT is refused and recorded: with HTTPS_PROXY set to this server, clients that try to leave
the machine are detected (`ModelServer.strays`).

On the command line: `python -m agentforge.testing.model_server --script write --port 0`.
"""

from agentforge.testing.model_server.requests import SeenRequest
from agentforge.testing.model_server.script import (
    FOREVER,
    SCRIPTS,
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
    "SeenRequest",
    "Shell",
    "Tokens",
    "Turn",
    "Write",
]

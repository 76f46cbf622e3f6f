"""The scripted model server, asked by plain HTTP in each of its formats."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.testing.model_clients import CLIENTS, Chat, Client, ask

from agentforge.testing.model_server import (
    FOREVER,
    Call,
    Fault,
    ModelServer,
    Rule,
    Script,
    Shell,
    Tokens,
    Turn,
    Write,
)

SCRIPT = Script(
    (
        Turn("First a command.", (Shell("echo hello > hello.txt"),)),
        Turn("Then the result.", (Write("{result}", '{"summary": "done"}'),)),
        Turn("All done."),
    ),
    usage=Tokens(1200, 34, 56),
)
PROMPT = "Do it. Write the result to [result=/tmp/work/result.json]"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


each_format = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: type(client).__name__)


def stream_path(client: Client) -> str:
    return client.path.replace(":generate", ":streamGenerate")


@each_format
def test_turns_of_the_script_follow_the_conversation(server: ModelServer, client: Client) -> None:
    url = server.url(SCRIPT, run="r")
    first = ask(url, client.path, client.body(PROMPT))
    assert client.said(first) == ("First a command.", [client.shell])
    assert client.used(first) == (1200, 34, 56)
    talk = (PROMPT, ("First a command.", client.shell[0]))
    second = ask(url, client.path, client.body(*talk))
    assert client.said(second) == ("Then the result.", [client.write])
    talk = (*talk, ("Then the result.", client.write[0]))
    assert client.said(ask(url, client.path, client.body(*talk))) == ("All done.", [])
    again = ask(url, client.path, client.body(*talk, ("All done.", None), "Once more."))
    assert client.said(again) == ("First a command.", [client.shell])
    assert [seen.step for seen in server.requests("r")] == [0, 1, 2, 0]


@each_format
def test_stream_has_the_same_content(server: ModelServer, client: Client) -> None:
    url = server.url(SCRIPT)
    got = ask(url, stream_path(client), client.body(PROMPT, stream=True))
    assert got.headers["content-type"] == "text/event-stream"
    assert client.streamed(got) == ("First a command.", [client.shell])
    talk = (PROMPT, ("First a command.", client.shell[0]))
    got = ask(url, stream_path(client), client.body(*talk, stream=True))
    assert client.streamed(got) == ("Then the result.", [client.write])
    assert [seen.streams for seen in server.requests()] == [True, True]


@each_format
def test_request_is_kept_with_what_it_held(server: ModelServer, client: Client) -> None:
    ask(server.url(SCRIPT, run="r"), client.path, client.body(PROMPT, ("First a command.", client.shell[0])))
    (seen,) = server.requests("r")
    assert seen.prompts == (PROMPT,)
    assert seen.prompt_tail.endswith("result.json]")
    assert [(reply.text, len(reply.calls)) for reply in seen.replies] == [("First a command.", 1)]
    assert seen.results == ("returned",)
    assert (seen.model, seen.status, seen.ended) == ("m-1", 200, "answered")
    assert seen.headers["x-api-key"] == "test-key"
    assert seen.calls == (client.write[0],)
    assert client.write[0] in seen.tools


@each_format
def test_fault_is_reported_in_the_wire_format(server: ModelServer, client: Client) -> None:
    fault = Fault(
        429, times=1, retry_after=1.5, headers={"x-limit": "7"}, message="Slow down.", details={"more": 1}
    )
    url = server.url(msgspec.structs.replace(SCRIPT, faults=(fault,)))
    got = ask(url, client.path, client.body(PROMPT))
    assert (got.status, got.headers["retry-after"], got.headers["x-limit"]) == (429, "1.5", "7")
    outer, member, kind = client.error
    error = got.json[outer]
    assert (error[member], error["message"], error["more"]) == (kind, "Slow down.", 1)
    assert ask(url, client.path, client.body(PROMPT)).status == 200


@each_format
def test_request_without_tools_gets_a_title_and_no_fault(server: ModelServer, client: Client) -> None:
    url = server.url(msgspec.structs.replace(SCRIPT, faults=(Fault(500),), aside="About files"))
    got = ask(url, client.path, client.body("A title?", tools=False))
    assert client.said(got) == ("About files", [])
    assert server.requests() == ()
    assert [seen.is_side for seen in server.requests(asides=True)] == [True]
    assert ask(url, client.path, client.body(PROMPT)).status == 500


@each_format
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_cut_answer_ends_in_the_middle_with_its_connection(
    server: ModelServer, client: Client, streams: bool
) -> None:
    url = server.url(msgspec.structs.replace(SCRIPT, cuts=1))
    path = stream_path(client) if streams else client.path
    with pytest.raises(HTTPException):
        ask(url, path, client.body(PROMPT, stream=streams))
    assert ask(url, path, client.body(PROMPT, stream=streams)).status == 200
    assert [seen.ended for seen in server.requests()] == ["cut", "answered"]


CHAT = Chat()


def test_response_cut_neatly_lacks_only_its_last_events(server: ModelServer) -> None:
    url = server.url(msgspec.structs.replace(SCRIPT, cuts=1, cuts_neatly=True))
    got = ask(url, CHAT.path, CHAT.body(PROMPT, stream=True))
    assert got.events
    assert "[DONE]" not in got.text
    assert server.requests()[0].ended == "cut"


def test_part_of_a_cut_response_in_the_conversation_is_not_a_turn(server: ModelServer) -> None:
    talk = (PROMPT, ("First a command.", "run_command"), ("Then the", None), ("API Error: 500", None))
    got = ask(server.url(SCRIPT), CHAT.path, CHAT.body(*talk, "Go on."))
    assert CHAT.said(got)[0] == "Then the result."


def test_rule_for_the_latest_prompt_that_matches_any(server: ModelServer) -> None:
    rules = (Rule("review", (Turn("I review."),)), Rule("plan", (Turn("I plan."),)))
    url = server.url(Script((Turn("Anything."),), rules))
    said = [
        CHAT.said(ask(url, CHAT.path, CHAT.body(*prompts)))[0]
        for prompts in (["review it"], ["review it", "now plan"], ["hello"], ["plan", "hello"])
    ]
    assert said == ["I review.", "I plan.", "Anything.", "I plan."]


def test_fault_after_some_requests_and_for_some_times(server: ModelServer) -> None:
    url = server.url(
        msgspec.structs.replace(SCRIPT, faults=(Fault(529, times=2, after=1), Fault(401, after=4)))
    )
    statuses = [ask(url, CHAT.path, CHAT.body(PROMPT)).status for _ in range(6)]
    assert statuses == [200, 529, 529, 200, 401, 401]


def test_runs_of_one_server_are_counted_separately(server: ModelServer) -> None:
    script = msgspec.structs.replace(SCRIPT, faults=(Fault(500, times=1),))
    one, two = server.url(script, run="one"), server.url(script, run="two")
    assert [ask(url, CHAT.path, CHAT.body(PROMPT)).status for url in (one, two, one, two)] == [
        *(500, 500),
        *(200, 200),
    ]
    assert len(server.requests("one")) == len(server.requests("two")) == 2


def test_many_clients_at_once_are_all_answered(server: ModelServer) -> None:
    script = msgspec.structs.replace(SCRIPT, delay=0.2)
    statuses: list[int] = []

    def client(number: int) -> None:
        statuses.append(
            ask(server.url(script, f"r{number}"), CHAT.path, CHAT.body(PROMPT), seconds=60).status
        )

    threads = [threading.Thread(target=client, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20


def test_requests_at_once_are_all_heard_before_any_is_answered(server: ModelServer) -> None:
    script = msgspec.structs.replace(SCRIPT, hang="before")
    runs = [f"r{number}" for number in range(20)]

    def client(run: str) -> None:
        with suppress(OSError, HTTPException):
            ask(server.url(script, run), CHAT.path, CHAT.body(PROMPT), seconds=60)

    threads = [threading.Thread(target=client, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for run in runs:
        assert server.wait_for(run, lambda seen: True).ended == ""
    server.close()
    for thread in threads:
        thread.join()


def test_tool_by_name_and_values_in_its_arguments(server: ModelServer) -> None:
    call = Call("complete", {"paths": ["{result}"], "n": 1, "text": "{unknown}"})
    url = server.url(Script((Turn("", (call,)), Turn("Done."))))
    got = ask(url, CHAT.path, CHAT.body("Write /w/a/result.json, I mean /w/b/result.json."))
    assert CHAT.said(got) == (
        "",
        [("complete", {"paths": ["/w/b/result.json"], "n": 1, "text": "{unknown}"})],
    )


def test_client_without_a_matching_tool_gets_an_error(server: ModelServer) -> None:
    body = CHAT.body(PROMPT, tools=False)
    body["tools"] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    got = ask(server.url(SCRIPT), CHAT.path, body)
    assert (got.status, got.json["error"]["message"]) == (
        400,
        "no tool to run a shell command among look",
    )
    assert server.requests()[0].ended == "no tool to run a shell command among look"


def test_hanging_request_is_seen_and_noticed_when_its_client_leaves(server: ModelServer) -> None:
    url = server.url(msgspec.structs.replace(SCRIPT, hang="before"), run="r")
    with pytest.raises(TimeoutError):
        ask(url, CHAT.path, CHAT.body(PROMPT), seconds=0.3)
    assert server.wait_for("r", lambda seen: seen.ended != "").ended == "client gone"


def test_response_that_hangs_within_has_started(server: ModelServer) -> None:
    url = urlsplit(server.url(msgspec.structs.replace(SCRIPT, hang="within")))
    connection = HTTPConnection(str(url.hostname), url.port, timeout=60)
    connection.connect()
    stream = connection.sock
    connection.request("POST", url.path + CHAT.path, json.dumps(CHAT.body(PROMPT, stream=True)))
    answer = connection.getresponse()
    assert answer.read(10) == b'data: {"id'
    stream.settimeout(0.5)
    with pytest.raises(TimeoutError):
        answer.read()
    connection.close()


def test_delay_comes_before_the_first_byte_and_drip_between_events(server: ModelServer) -> None:
    began = time.monotonic()
    ask(server.url(msgspec.structs.replace(SCRIPT, delay=0.3)), CHAT.path, CHAT.body(PROMPT))
    delayed = time.monotonic() - began
    ask(server.url(msgspec.structs.replace(SCRIPT, drip=0.1), "d"), CHAT.path, CHAT.body(PROMPT, stream=True))
    assert delayed >= 0.3
    assert time.monotonic() - began - delayed >= 0.6, "seven events"


def test_closing_ends_what_hangs_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())  # Those of earlier tests may end in the meantime.
    with ModelServer() as server:
        url = server.url(Script((Turn("Never."),), hang="before"), "r")
        errors: list[Exception] = []

        def client() -> None:
            try:
                ask(url, CHAT.path, CHAT.body(PROMPT), seconds=60)
            except (HTTPException, OSError) as error:
                errors.append(error)

        thread = threading.Thread(target=client)
        thread.start()
        server.wait_for("r", lambda seen: seen.format != "")
    thread.join(60)
    assert len(errors) == 1
    assert set(threading.enumerate()) <= before


def test_external_hosts_are_refused_and_recorded(server: ModelServer) -> None:
    parts = urlsplit(server.address)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    connection.set_tunnel("example.invalid", 443)
    with pytest.raises(OSError, match="403"):
        connection.connect()
    connection.close()
    assert server.strays() == ("example.invalid:443",)


def test_questions_that_clients_ask_besides(server: ModelServer) -> None:
    url = server.url(SCRIPT)
    assert ask(url, "/v1/models", method="GET").json["data"][0]["id"] == "scripted"
    assert ask(url, "/v1/messages/count_tokens", {}).json["input_tokens"] == 1200
    assert ask(url, "/v1beta/models/m:countTokens", {}).json["totalTokens"] == 1200
    assert ask(url, "/v1/unknown", {}).status == 404
    assert ask(url, CHAT.path, {"messages": 3}).status == 400
    assert ask(server.address, "/", method="HEAD").status == 200
    assert ask(server.address, "/no-such/run/v1/messages", {}).status == 404


def test_unknown_script_is_refused_with_the_known_ones(server: ModelServer) -> None:
    with pytest.raises(LookupError, match=r"unknown script 'wirte'; known scripts: .*write"):
        server.url("wirte")


def test_script_is_data() -> None:
    text = """{
      "turns": [
        {"text": "I write.", "actions": [{"do": "write", "path": "{result}", "content": "{}"}]},
        {"actions": [{"do": "shell", "command": "true"}, {"do": "call", "tool": "t", "arguments": {"a": 1}}]},
        {"text": "Done."}
      ],
      "faults": [{"status": 429, "times": 2, "retry_after": 1}],
      "cuts": 1
    }"""
    script = msgspec.json.decode(text, type=Script)
    assert script.turns[0] == Turn("I write.", (Write("{result}", "{}"),))
    assert script.turns[1].actions == (Shell("true"), Call("t", {"a": 1}))
    assert script.faults == (Fault(429, 2, retry_after=1),)
    assert script.cuts < FOREVER
    assert msgspec.json.decode(msgspec.json.encode(script), type=Script) == script


def test_program_prints_its_address_and_plays_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"turns": [{"text": "From a file."}]}')
    command = [sys.executable, "-m", "agentforge.testing.model_server", "--script", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            assert CHAT.said(ask(url, CHAT.path, CHAT.body("Hello"))) == ("From a file.", [])
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "must be a JSON file or one of write"),
        ('{"turns": [{"actions": [{"do": "fly"}]}]}', "'fly'"),
    ],
)
def test_program_refuses_an_unknown_script_with_a_message(
    tmp_path: Path, content: str | None, says: str
) -> None:
    if content:
        (tmp_path / "script.json").write_text(content)
    command = [sys.executable, "-m", "agentforge.testing.model_server", "--script", "script.json"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("model server: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr

"""Which addresses are on this machine, judged by what their names resolve to."""

from collections.abc import Sequence

import pytest

from agentforge.system.loopback import NotLocal, local_addresses, remote_problem

NAMES = {
    "models.local.test": ["127.0.0.1"],
    "both.test": ["::1", "127.0.0.1"],
    "mixed.test": ["127.0.0.1", "203.0.113.7"],
    "api.example.com": ["203.0.113.7"],
    "nothing.test": [],
    "odd.test": ["not an address"],
    "localhost": ["::1", "127.0.0.1"],
}


def resolve(host: str) -> Sequence[str]:
    """Instead of the resolver of this machine. A literal is its own address."""
    if host in NAMES:
        return NAMES[host]
    if host.replace(".", "").isdigit() or ":" in host:
        return [host]
    raise OSError(-2, "Name or service not known")


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:11434/v1",
        "http://127.9.9.9",
        "http://[::1]:8080",
        "http://[::ffff:7f00:1]/",
        "http://localhost:1234/v1",
        "https://LOCALHOST./v1",
        "http://both.test/",
    ],
)
def test_addresses_on_this_machine(address: str) -> None:
    assert remote_problem(address, {}, resolve) == ""


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://api.example.com/v1", "api.example.com is 203.0.113.7, which is not on this machine"),
        ("http://mixed.test", "mixed.test is 203.0.113.7, which is not on this machine"),
        ("http://192.168.1.5:11434", "192.168.1.5 is not on this machine"),
        ("http://0.0.0.0:1", "0.0.0.0 is not on this machine"),
        ("http://[2001:db8::1]:80/v1", "2001:db8::1 is not on this machine"),
        ("http://[::ffff:cb00:7107]", "::ffff:cb00:7107 is not on this machine"),
        ("http://nothing.test", "nothing.test is not on this machine"),
        ("http://odd.test", "odd.test is not an address, which is not on this machine"),
        ("http://unknown.test", "unknown.test has no address here: Name or service not known"),
        ("http://127.0.0.1@api.example.com", "is not a plain http(s) address"),
        ("unix:///run/model.sock", "is not a plain http(s) address"),
        ("", "is not a plain http(s) address"),
    ],
)
def test_addresses_elsewhere(address: str, problem: str) -> None:
    assert remote_problem(address, {}, resolve).endswith(problem)


PROXY = "http://user:hidden@proxy.example.com:3128"


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ({"HTTP_PROXY": PROXY}, "HTTP_PROXY"),
        ({"https_proxy": PROXY}, "https_proxy"),
        ({"ALL_PROXY": "socks5://203.0.113.7:1080"}, "ALL_PROXY"),
        ({"all_proxy": "203.0.113.7:3128"}, "all_proxy"),
        ({"http_proxy": "http://[broken"}, "http_proxy"),
        ({"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": PROXY}, "HTTP_PROXY"),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "internal.example.com,127.0.0.2"}, "HTTP_PROXY"),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "127.0.0.1", "no_proxy": "other"}, "HTTP_PROXY"),
        ({"HTTP_PROXY": "http://127.0.0.1:3128"}, ""),
        ({"HTTP_PROXY": "", "HTTPS_PROXY": ""}, ""),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "example.com, 127.0.0.1"}, ""),
    ],
)
def test_a_proxy_elsewhere_gets_what_is_for_this_machine(environment: dict[str, str], variable: str) -> None:
    problem = remote_problem("http://127.0.0.1:9/v1", environment, resolve)
    assert bool(problem) is bool(variable)
    assert problem.startswith(variable)
    assert "hidden" not in problem
    assert problem.endswith("add 127.0.0.1 to NO_PROXY" if variable else "")


def test_the_resolver_of_this_machine_knows_literals_and_refuses_what_is_not_a_name() -> None:
    assert local_addresses("127.0.0.1") == ("127.0.0.1",)
    assert local_addresses("::1") == ("::1",)
    for host in ("203.0.113.7", "x" * 300):
        with pytest.raises(NotLocal):
            local_addresses(host)

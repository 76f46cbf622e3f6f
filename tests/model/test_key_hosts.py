"""Where a key may be sent."""

import pytest

from agentforge.model.secrets import host_problem, names_address


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9",
        "http://localhost:1234/v1",
        "http://[::1]:11434/v1",
        "https://api.anthropic.com",
        "https://API.OpenAI.com/v1",
        "https://api.openai.com./v1",
        "https://gateway.example.com/openai/v1?region=eu",
        "https://other.example.com",
        "https://proxy.example.com:8443",
    ],
)
def test_makers_this_machine_and_the_hosts_of_the_user(address: str) -> None:
    user = {
        "AGENTFORGE_KEY_HOSTS": "gateway.example.com, other.example.com",
        "OPENAI_BASE_URL": "https://proxy.example.com:8443/v1",
        "ANTHROPIC_BASE_URL": "nonsense",
    }
    assert host_problem(address, user) == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://evil.example.com", "set AGENTFORGE_KEY_HOSTS=evil.example.com"),
        ("https://127.0.0.1.evil.example.com", "evil.example.com"),
        ("https://localhost.evil.example.com", "evil.example.com"),
        ("https://api.openai.com.evil.example.com", "evil.example.com"),
        ("http://api.openai.com/v1", "unencrypted"),
        ("http://192.168.1.2:8000", "unencrypted"),
        ("http://0x7f000001", "unencrypted"),
        ("https://api.openai.com@evil.example.com", "not a plain"),
        ("https://evil.example.com\\@127.0.0.1", "not a plain"),
        ("https://evil.example.com#@127.0.0.1", "not a plain"),
        ("https://127.0.0.1\n.evil.example.com", "not a plain"),
        ("ftp://127.0.0.1", "not a plain"),
        ("", "not a plain"),
    ],
)
def test_other_hosts_are_refused_with_the_reason(address: str, why: str) -> None:
    assert why in host_problem(address, {"AGENTFORGE_KEY_HOSTS": ""})


def test_variables_with_an_address() -> None:
    names = (
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_BASE",
        "AZURE_OPENAI_ENDPOINT",
        "BASE_URL",
        "LANG",
        "OPENAI_API_KEY",
    )
    assert [names_address(name) for name in names] == [True, True, True, False, False, False]

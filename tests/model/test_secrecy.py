"""Which names and values count as secret."""

import pytest

from agentforge.model.secrets import can_be_secret, is_secret_name, looks_like_path

SECRET = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_APIKEY", "AWS_SECRET_ACCESS_KEY", "API_KEY", "API_KEY_2"),
    *("GITHUB_TOKEN", "GH_TOKEN", "TOKEN", "AWS_SESSION_TOKEN", "NPM_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    *("CLIENT_SECRET", "SECRET", "APP_SECRETS", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "PASSWD"),
    *("SSH_KEY_PASSPHRASE", "GOOGLE_CREDENTIALS", "AZURE_CREDENTIAL", "GITHUB_PAT", "my_api_key"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
)
PLAIN = (
    *(
        "TOKEN_COUNT",
        "MAX_TOKENS",
        "KEYBOARD",
        "KEY",
        "MONKEY",
        "PWD",
        "OLDPWD",
        "PATH",
        "HOME",
        "SSH_AUTH_SOCK",
    ),
    *("SSH_PUBLIC_KEY", "PRIMARY_KEY", "CACHE_KEY", "NEXT_TOKEN", "SECRETARY", "PASSWORD_FILE", "KEYMAP"),
    *(
        "TOKENIZERS_PARALLELISM",
        "MAX_THINKING_TOKENS",
        "COMPAT",
        "PAT",
        "API_KEY_HELPER",
        "AGENTFORGE_RESULT",
    ),
)


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_only_looks_like_one(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("value", ["sk-12345678", "hunter2hunter2", "p@ss word", "aB3/+kd9=", "a1b2c3d4"])
def test_a_value_that_can_be_secret(value: str) -> None:
    assert can_be_secret(value)


@pytest.mark.parametrize(
    "value",
    ["", "short", "true", "disabled", "Required", "password", "12345678901", "xxxxxxxxxxxx", "      a  "],
)
def test_a_value_that_is_too_plain_to_be_hidden(value: str) -> None:
    assert not can_be_secret(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/etc/key.pem", True),
        ("~/.key", True),
        ("./key", True),
        ("../k", True),
        ("sk-1/2", False),
        (".env", False),
    ],
)
def test_path_values(value: str, path: bool) -> None:
    assert looks_like_path(value) is path

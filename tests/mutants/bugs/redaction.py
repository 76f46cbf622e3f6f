"""Bugs in detecting and redacting secrets."""

from tests.mutants.mutation import Mutation as Bug

SECRETS = "agentforge.model.secrets"
LOGGING = "agentforge.app.redaction"
ENVIRONMENT = "agentforge.adapters.environment"

BUGS = (
    Bug(
        SECRETS,
        "a secret within JSON isn't redacted",
        "found |= {value, once, _in_json(once, ascii_only)}",
        "found |= {value}",
    ),
    Bug(
        SECRETS,
        "a secret in JSON within JSON isn't redacted",
        "found |= {value, once, _in_json(once, ascii_only)}",
        "found |= {value, once}",
    ),
    Bug(
        SECRETS,
        "a secret in unescaped non-ASCII JSON isn't redacted",
        "for ascii_only in (True, False):",
        "for ascii_only in (True,):",
    ),
    Bug(
        SECRETS,
        "the shorter of two secrets is redacted first",
        "key=lambda spelling: (-len(spelling), spelling)",
        "key=lambda spelling: (len(spelling), spelling)",
    ),
    Bug(
        SECRETS,
        "keys of mappings aren't redacted",
        "{self.data(key): self.data(item) for key, item",
        "{key: self.data(item) for key, item",
    ),
    Bug(
        SECRETS,
        "lists aren't redacted",
        "            case list() | tuple():\n                return type(value)(self.data(item) for item in value)\n",
        "",
    ),
    Bug(SECRETS, "secrets are treated as patterns", "map(re.escape, written)", "written"),
    Bug(
        SECRETS,
        "bytes that aren't UTF-8 are lost",
        '.encode("utf-8", "surrogateescape")',
        '.encode("utf-8", "replace")',
    ),
    Bug(SECRETS, "short values count as secrets", "len(text) >= MIN_SECRET_CHARS and", "len(text) >= 1 and"),
    Bug(SECRETS, "plain words count as secrets", " and _PLAIN_VALUE.fullmatch(text) is None", ""),
    Bug(
        SECRETS,
        "plain names with a secret suffix count as secret",
        " and _PLAIN_NAME.search(name) is None",
        "",
    ),
    Bug(SECRETS, "passwords don't count as secrets", "| PASSWORD | PASSWD", "| PASSWD"),
    Bug(
        SECRETS,
        "lowercase names don't count as secret",
        "    re.VERBOSE | re.IGNORECASE,\n",
        "    re.VERBOSE,\n",
    ),
    Bug(SECRETS, "numbered names don't count as secret", r"(?:_?\d+)?$", "$"),
    Bug(
        LOGGING,
        "fields of a log record aren't redacted",
        "                    record.__dict__[name] = hide(value)\n",
        "                    pass\n",
    ),
    Bug(LOGGING, "tracebacks aren't redacted", "            self._hide_exception(record)\n", ""),
    Bug(
        LOGGING,
        "arguments of a log record aren't redacted",
        "record.msg, record.args = hide(record.getMessage()), None",
        "record.msg = hide(record.msg)",
    ),
    Bug(
        "agentforge.app.runs.answers",
        "the file of an answer has the secret that was said",
        'stored_text(response.answer, environ, "the answer")',
        "response.answer",
        ("tests/sdk/test_agent_questions.py",),
    ),
    Bug(
        "agentforge.app.runs.answers",
        "a look at the requests records a secret in an answer",
        "record_due(journal, layout, hidden_answers(context.runs.environ))",
        "record_due(journal, layout, str)",
        ("tests/sdk/test_answers.py",),
    ),
    Bug(
        "agentforge.app.runs.controls",
        "the file of a control has the secret in its reason",
        '    hidden = stored_text(reason, context.runs.environ, "the reason")\n    control',
        "    hidden = reason\n    control",
        ("tests/sdk/test_answers.py",),
    ),
    Bug(
        "agentforge.app.runs.start",
        "the copy of the pipeline has the secrets in it",
        "environment_redactor(environ).text(compiled.source.text)",
        "compiled.source.text",
        ("tests/sdk/test_answers.py",),
    ),
    Bug(
        "agentforge.runtime.hook_answer",
        "the answer of a hook isn't redacted",
        "_clean(result.answer, redactor)",
        "result.answer",
        ("tests/runtime/test_hook_answer.py",),
    ),
    Bug(
        "agentforge.runtime.hook_answer",
        "the remark of a hook isn't redacted",
        "_clean(result.text, redactor)",
        "result.text",
        ("tests/runtime/test_hook_answer.py",),
    ),
    Bug(
        "agentforge.runtime.recorder",
        "recorded output isn't redacted",
        "yield Say(text=redactor.text(text))",
        "yield Say(text=text)",
        ("tests/runtime/test_recorder.py",),
    ),
    Bug(
        "agentforge.runtime.recorder",
        "the message of a recorded failure isn't redacted",
        "message=redactor.text(failure.message)",
        "message=failure.message",
        ("tests/runtime/test_recorder.py",),
    ),
    Bug(
        "agentforge.runtime.recorder",
        "a recorded result isn't redacted",
        "WriteResult(value=redactor.data(ended.result))",
        "WriteResult(value=ended.result)",
        ("tests/runtime/test_recorder.py",),
    ),
    Bug(
        "agentforge.runtime.tasks.judge",
        "the failure of a judge isn't redacted",
        "INVOKE_FAILED, hide(why)",
        "INVOKE_FAILED, why",
        ("tests/sdk/test_judge_secrets.py",),
    ),
    Bug(
        ENVIRONMENT,
        "inherited secrets aren't redacted",
        "(*environment.items(), *(inherited or {}).items())",
        "environment.items()",
    ),
    Bug(
        ENVIRONMENT,
        "variables named in the settings aren't redacted",
        "(is_secret_name(name) or _matches(name, names)) and",
        "is_secret_name(name) and",
    ),
)

"""Models that are known by name or pattern. Others may exist: they are used with a warning that names the
nearest one."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from agentforge.model.diagnostic import choice, did_you_mean, is_misspelled

ANTHROPIC = (
    *("claude-opus-5-5", "claude-opus-5", "claude-opus-4-8", "claude-opus-4-5", "claude-sonnet-5-5"),
    *("claude-sonnet-5", "claude-sonnet-4-6", "claude-sonnet-4-5", "claude-haiku-5-5", "claude-haiku-4-5"),
    *("claude-fable-5-1", "claude-fable-5", "claude-mythos-5-1", "claude-mythos-5", "claude-mythos-preview"),
    *(f"claude-{family}-4-[0-9]*" for family in ("opus", "sonnet", "haiku")),
    *(f"claude-{family}-[5-9]*" for family in ("opus", "sonnet", "haiku", "fable", "mythos")),
    "claude-3*",
)
CODEX = (
    *("gpt-5.5", "gpt-5.6-luna", "gpt-5.6-sol", "gpt-5.6-terra"),
    *("gpt-6-astra", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-sol", "gpt-6.1-terra"),
)
_KINDS = ("pro", "mini", "nano", "codex*", "chat-latest", "turbo*", "20[0-9]*")
OPENAI = (
    *CODEX,
    *("gpt-5.4", "gpt-5.3", "gpt-5.2", "gpt-5.1", "gpt-5", "gpt-4.1", "gpt-4o", "gpt-4"),
    *(f"gpt-[4-9]*-{kind}" for kind in _KINDS),
    *("o1", "o3", "o3-mini", "o4-mini", "o[0-9]*-20[0-9]*", "o[0-9]-pro*", "o[0-9]-*deep-research*"),
)
GOOGLE = (
    *("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3-pro-preview"),
    *("gemini-[0-9]*-pro", "gemini-[0-9]*-pro-*", "gemini-[0-9]*-flash", "gemini-[0-9]*-flash-*"),
    *("gemini-4-argon", "gemini-*-latest", "gemma-[0-9]*"),
)


def of_maker(maker: str, models: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{maker}/{model}" for model in models)


def model_doubt(provider: str, model: str, known: Iterable[str]) -> str:
    """What is unknown about the model, with the nearest name, or "". If known ones are `MAKER/MODEL`, those
    of other makers are not judged."""
    patterns = tuple(known)
    makers = {pattern.partition("/")[0] for pattern in patterns if "/" in pattern}
    maker, slash, _ = model.partition("/")
    is_foreign = bool(makers) and maker not in makers and not (slash and is_misspelled(maker, makers))
    if is_foreign or any(fnmatchcase(model, pattern) for pattern in patterns):
        return ""
    names = [name for name in patterns if name.isascii() and not set("*?[") & set(name)]
    hint = did_you_mean(model, names) or choice(model, "known models", names)
    return f"`model`: {provider} may not know `{model}`; {hint}"

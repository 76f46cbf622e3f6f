"""Settings: what the user and the project say once for all pipelines. Reads their files, which stand below
everything that a pipeline says itself, apart from `orchestration`, for pipelines that ask for it."""

# There are two levels, weakest first: the user's file, and the files of the project, of which there may be
# two. A key may stand in only one of these, so that their order doesn't matter.
#
# A repository is not the user. What it says of `commands`, `provider` and `notify` is pinned in the plan and
# shown before it runs; its notifications count only in a project that the user trusts
# (`app/runs/compilation.py`); and it may make the sandbox and the network stricter than the user's own file
# does, never less strict.

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from posixpath import join
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.settings_keys import COST, SETTINGS, TIMEOUT, TOTAL
from agentforge.definition.read.table import Entries, MappingSpec
from agentforge.definition.read.values import as_data
from agentforge.definition.read.work_keys import build_work
from agentforge.definition.report import Report, SourceText, relative
from agentforge.definition.specs import WorkSpec
from agentforge.definition.yaml_tree import Entry, Keyed, Listed, Scalar, Tree, Written, is_null, parse_value
from agentforge.model.delivery import DeliveryMode
from agentforge.model.diagnostic import ARGUMENTS
from agentforge.model.errors import DefinitionError, StorageFailed
from agentforge.model.hook import Notification
from agentforge.model.layout import PROJECT_SETTINGS, USER_SETTINGS, config_folder
from agentforge.model.plan import NETWORK
from agentforge.model.secrets import is_secret_name
from agentforge.ports.sources import MAX_SOURCE_BYTES, Sources

LIMITS = "limits"
LOOSEN = "change your settings to allow it"
ALIASES = {
    "llm.provider": "provider",
    "llm.model": "model",
    "pipeline.default_type": "pipeline",
    **{f"cost.{longer}": f"{LIMITS}.{name}" for longer, name in COST.items()},
}
"""Longer ways to write a key."""
_SUPERVISED = "pipeline.supervised_by_default"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NOTHING = re.compile(r"(?:\s|#.*+|---)*+")
BY_NAME = ("commands", "orchestration", LIMITS)
"""Keys whose values are merged; of the others, each has one value."""
_CONFINING = {"none": 0, "auto": 1}
"""How strict kinds of sandboxes are; others always confine."""
_DELIVERED: dict[DeliveryMode, int] = {"files": 0, "patch": 1, "commit": 2, "pr": 3}
"""How far modes reach."""
_MOST_DELIVERED: DeliveryMode = "commit"
"""What a project may ask for if its user's settings say nothing."""
_REPLACEABLE = ("provider", "model", "llm", "pipeline", "orchestration")
"""Keys whose values may be replaced by what is said elsewhere; those of others always have a say."""


class SettingsLevel(Struct, frozen=True):
    """What the user says, or the project."""

    is_users: bool
    work: WorkSpec = WorkSpec()
    """Below the pipeline's own keys."""
    pipeline: Written[str] | None = None
    supervised: Written[bool] | None = None
    network: Written[str] | None = None
    delivery: Written[DeliveryMode] | None = None
    notify: tuple[Written[Notification], ...] = ()
    orchestration: Mapping[str, Written[Any]] = {}
    limits: Mapping[str, Written[Any]] = {}
    written: Mapping[str, Written[Any]] = {}
    """All of it as data, by dotted keys; empty if the caller says it."""
    unset: Mapping[str, Written[str]] = {}
    """By dotted keys: the variable in a value that isn't set. It is an error where that value is needed."""

    @property
    def commands(self) -> dict[str, str]:
        return dict(self.work.get("commands") or {})

    @property
    def is_local(self) -> bool:
        return self.network is not None and self.network.value == "local"


class Settings(Struct, frozen=True):
    levels: tuple[SettingsLevel, ...] = ()
    """Weakest first."""

    @property
    def works(self) -> tuple[WorkSpec, ...]:
        return tuple(level.work for level in self.levels)

    @property
    def commands(self) -> dict[str, str]:
        return {name: run for level in self.levels for name, run in level.commands.items()}

    @property
    def orchestration(self) -> dict[str, Written[Any]]:
        return {key: value for level in self.levels for key, value in level.orchestration.items()}

    @property
    def limits(self) -> dict[str, Written[Any]]:
        """The lowest of all files: a project lowers what its user may spend, and doesn't raise it."""
        lowest: dict[str, Written[Any]] = {}
        for name, value in (item for level in self.levels for item in level.limits.items()):
            lowest[name] = min(lowest.get(name, value), value, key=lambda one: one.value)
        return lowest

    @property
    def of_caller(self) -> Mapping[str, Written[Any]]:
        """What the caller says below `orchestration`."""
        return next((level.orchestration for level in self.levels if not level.written), {})

    @property
    def pipeline(self) -> Written[str] | None:
        return next((level.pipeline for level in reversed(self.levels) if level.pipeline), None)

    @property
    def supervised(self) -> Written[bool] | None:
        """Whether pipelines of the controller are supervised by default, at the place of its key."""
        for level in reversed(self.levels):
            if level.supervised:
                return Written(level.supervised.value, level.written[_SUPERVISED].at)
        return None

    @property
    def delivery(self) -> Written[DeliveryMode] | None:
        """A project may ask for less than its user's settings do, and for no pull request without them."""
        users = next((level.delivery for level in self.levels if level.is_users and level.delivery), None)
        asked = next((level.delivery for level in reversed(self.levels) if level.delivery), None)
        most = users.value if users else _MOST_DELIVERED
        return users if asked and _DELIVERED[asked.value] > _DELIVERED[most] else asked

    @property
    def is_local(self) -> bool:
        """Whether any of the files refuses what isn't on this machine: none can allow it again."""
        level = self.level_of("network")
        return level is not None and level.is_local

    @property
    def users_sandbox(self) -> MappingSpec | None:
        found = (level.work.get("sandbox") for level in self.levels if level.is_users)
        return next(found, None)

    def unset_of(self, key: str) -> Written[str] | None:
        """The variable that the value of a key lacks, if that is the one that counts."""
        levels = (level for level in reversed(self.levels) if key in level.unset or key in level.written)
        return next((level.unset.get(key) for level in levels), None)

    def level_of(self, key: str, *, trusts_project: bool = True) -> SettingsLevel | None:
        """The level whose value of a key counts: the project's, if it may say that to this user."""
        top, _, name = key.partition(".")
        if top in BY_NAME:
            said = [level for level in self.levels if key in level.written]
            lowest = [level for level in said if level.limits.get(name) is self.limits.get(name)]
            return next(iter(lowest if top == LIMITS else reversed(said)), None)
        levels = [level for level in self.levels if top in map(top_of, level.written)]
        if top == "pipeline":
            levels = [level for level in levels if key in level.written]
        if top == "notify":
            levels = [level for level in levels if level.notify and (level.is_users or trusts_project)]
        users, last = next(iter(levels), None), next(reversed(levels), None)
        if users is None or last is None or not users.is_users:
            return last
        own, least = last.work.get("sandbox"), users.work.get("sandbox")
        is_looser = top == "sandbox" and own and least and not is_as_strict(own, least)
        return users if is_looser or (top == "network" and users.is_local) else last


def is_as_strict(sandbox: MappingSpec, users: MappingSpec) -> bool:
    """Whether a sandbox allows agents nothing that the user's own doesn't."""
    kind, least = (
        _CONFINING.get(spec.get("type").value if spec.get("type") else "", 2) for spec in (sandbox, users)
    )
    if kind < least or least < 2:  # These hide nothing that another could show.
        return kind >= least
    off, wanted = (spec.get("network") and not spec.get("network").value for spec in (sandbox, users))
    hidden, must = ({one.value for one in spec.get("hidden") or ()} for spec in (sandbox, users))
    writable, may = ({one.value for one in spec.get("writable") or ()} for spec in (sandbox, users))
    return bool(off or not wanted) and hidden >= must and writable <= may


def user_settings(environment: Mapping[str, str]) -> str | None:
    """The path of the user's file, or None if the environment doesn't tell it."""
    folder = config_folder(environment)
    return join(folder, USER_SETTINGS) if folder else None


def read_settings(
    sources: Sources,
    report: Report,
    replaced: Mapping[str, str] = {},
    given: Mapping[str, Any] = {},
    *,
    is_lazy: bool = False,
) -> Settings:
    """`replaced`: texts to read in the place of files, by their paths. `given`: what the caller says below
    `orchestration`, by dotted keys. `is_lazy`: the caller refuses unset variables where it needs them."""
    users, own = user_settings(sources.environment), (join(sources.project, one) for one in PROJECT_SETTINGS)
    reader = _Reader(sources, report, replaced)
    found = (reader.level([users] if users else [], is_users=True), reader.level([*own], is_users=False))
    callers = (_callers(given, report),) if given else ()
    settings = Settings((*(level for level in found if level.written or level.unset), *callers))
    _validate_shares(settings, report)
    for level in settings.levels:
        if not is_lazy:
            refuse_unset(level.unset.values(), report)
        if level.network and settings.is_local and not (level.is_users or level.is_local):
            message = "your settings have `network: local`, which counts"
            report.warning("less-strict", level.network.at, message, LOOSEN)
        for name, value in level.limits.items():
            if not level.is_users and (lowest := settings.limits[name]) is not value:
                message = f"`{LIMITS}.{name}` of your settings is lower ({lowest.at.text}), which counts"
                report.warning("less-strict", value.at, message, LOOSEN)
    return settings


def is_local_user(sources: Sources) -> bool:
    """Whether the user allows only what is on this machine, in the own file or in the environment. Raises
    DefinitionError for mistakes in that file, which may be about this."""
    users, report = user_settings(sources.environment), Report()
    level = _Reader(sources, report, {}).level([users] if users else [], is_users=True)
    if report.has_errors:
        raise DefinitionError(report.diagnostics)
    return level.is_local or sources.environment.get(NETWORK) == "local"


def refuse_unset(variables: Iterable[Written[str]], report: Report) -> None:
    for variable in variables:
        message = f"the environment variable {variable.value} is not set"
        report.error("unset-variable", variable.at, message, "set it, or write the value itself")


def is_blank(text: str) -> bool:
    """Whether a file has nothing but comments."""
    return _NOTHING.fullmatch(text) is not None


def settings_tree(source: SourceText, report: Report) -> Keyed | None:
    """What a file says that isn't blank; None if that can't be used."""
    tree = parse_value(source, report)
    if tree is None or isinstance(tree, Keyed):
        return tree
    report.error("not-a-mapping", tree.at, "settings must be a mapping", "start with `provider: …`")
    return None


def _callers(given: Mapping[str, Any], report: Report) -> SettingsLevel:
    data = nested((parts_of(f"orchestration.{key}"), value) for key, value in given.items())
    text = msgspec.json.encode(data).decode()
    tree = parse_value(SourceText(ARGUMENTS, text), report)
    assert isinstance(tree, Keyed)
    return _level(SETTINGS.read(tree, report), {}, is_users=True)


class _Reader:
    def __init__(self, sources: Sources, report: Report, replaced: Mapping[str, str]) -> None:
        self._sources = sources
        self._report = report
        self._replaced = replaced
        self._added = 0

    def level(self, paths: list[str], *, is_users: bool) -> SettingsLevel:
        written: dict[str, Written[Any]] = {}
        unset: dict[str, Written[str]] = {}
        values: dict[str, Any] = {}
        entries: Entries | None = None
        for path in paths:
            tree = self._tree(path)
            if tree is None:
                continue
            known = {key.name for key in SETTINGS.keys}
            missing: dict[str, Written[str]] = {}
            tree = self._expanded(self._set(tree, missing))
            own = dict(_leaves([one for one in tree.entries if one.key.text in known]))
            self._refuse_twice(own | missing, written | unset)
            entries = SETTINGS.read(tree, self._report)
            values = _united(values, self._short(entries))
            written |= own
            unset |= missing
        if entries is None:
            return SettingsLevel(is_users)
        return replace(_level(replace(entries, values=values), written, is_users=is_users), unset=unset)

    def _tree(self, path: str) -> Keyed | None:
        name = relative(self._sources.project, path)
        try:
            text = self._replaced.get(path, self._sources.read(path))
        except StorageFailed as error:
            self._report.error("unreadable", SourceText(name, "").start, error.message, error.hint)
            return None
        if text is None and self._sources.is_dir(path):
            at, hint = SourceText(name, "").start, "move the folder"
            self._report.error("unreadable", at, f"{name} is a folder, not a settings file", hint)
        if text is None or is_blank(text):
            return None
        return settings_tree(SourceText(name, text), self._report)

    def _refuse_twice(self, own: Mapping[str, Written[Any]], before: Mapping[str, Written[Any]]) -> None:
        """A key that stands in both files of the project."""
        places = {_identity(key): value.at for key, value in before.items()}
        for key, value in own.items():
            if first := places.get(_identity(key)):
                message = f"`{_identity(key)}` is also in {first.file}, line {first.line}"
                self._report.error("conflict", value.at, message, "keep one of them")

    def _short(self, entries: Entries) -> dict[str, Any]:
        values = dict(entries.values)
        if limits := values.get(LIMITS):
            values[LIMITS] = dict(limits.values)
        for top in ("llm", "cost"):
            longer: MappingSpec | None = values.pop(top, None)
            for name, value in (longer.values if longer else {}).items():
                short = plain_key(f"{top}.{name}")
                *above, last = short.split(".")
                into = values.setdefault(LIMITS, {}) if above else values
                if into.setdefault(last, value) is not value:
                    message = f"`{short}` and `{top}.{name}` are the same setting"
                    self._report.error("conflict", entries.written[top].key.at, message, "keep one of them")
        return values

    def _set(self, tree: Keyed, unset: dict[str, Written[str]], within: str = "") -> Keyed:
        """With null in the place of values in which a variable isn't set; `unset` gets these."""

        def read(entry: Entry) -> Entry:
            name = f"{within}{entry.key.text}"
            if top_of(name) not in _REPLACEABLE:
                return entry
            match entry.value:
                case Keyed() as inner if plain_key(name) != "provider":
                    return replace(entry, value=self._set(inner, unset, f"{name}."))
                case Scalar(value=str()) as scalar if missing := self._missing(scalar.text):
                    unset[plain_key(name)] = Written(missing, scalar.at)
                    return replace(entry, value=replace(scalar, text="null", value=None))
                case _:
                    return entry

        return replace(tree, entries=tuple(map(read, tree.entries)))

    def _missing(self, text: str) -> str | None:
        """The first variable in it that isn't set, if it may be named at all."""
        names = _VARIABLE.findall(text)
        unset = [name for name in names if name not in self._sources.environment]
        return unset[0] if unset and not any(map(is_secret_name, names)) else None

    def _expanded(self, tree: Keyed) -> Keyed:
        """With the values of variables in the place of `${NAME}`, in the settings that are used."""
        return replace(tree, entries=tuple(map(self._expanded_entry, tree.entries)))

    def _expanded_entry(self, entry: Entry) -> Entry:
        """A shell expands the variables of a command, and a provider those of its settings."""
        match entry.key.text, entry.value:
            case "llm", Keyed() as longer:
                return replace(entry, value=self._expanded(longer))
            case ("provider", Keyed() | Listed()) | ("commands" | "llm", _):
                return entry
            case name, value:  # exhaustive
                is_used = any(name == key.name for key in SETTINGS.keys)
                return replace(entry, value=self._with_variables(value)) if is_used else entry

    def _with_variables(self, tree: Tree) -> Tree:
        match tree:
            case Keyed():
                kept = ("command", "secret", "environment")
                entries = (
                    one if one.key.text in kept else replace(one, value=self._with_variables(one.value))
                    for one in tree.entries
                )
                return replace(tree, entries=tuple(entries))
            case Listed():
                return replace(tree, items=tuple(map(self._with_variables, tree.items)))
            case Scalar():  # exhaustive
                return self._with_values(tree)

    def _with_values(self, scalar: Scalar) -> Scalar:
        if not isinstance(scalar.value, str) or not (names := _VARIABLE.findall(scalar.text)):
            return scalar
        values = {name: self._sources.environment.get(name) for name in names}
        for name, value in values.items():
            if is_secret_name(name):
                message, hint = f"`${{{name}}}` names a secret, which settings don't contain", "remove it"
                self._report.error("secret-in-file", scalar.at, message, hint)
                return scalar
            if value is None:
                refuse_unset([Written(name, scalar.at)], self._report)
                return scalar
        self._added += sum(len(values[name] or "") for name in names)
        if self._added > MAX_SOURCE_BYTES:
            message = f"the values of variables have more than {MAX_SOURCE_BYTES:,} characters together"
            self._report.error("too-large", scalar.at, message, "use fewer variables, or shorter values")
            return scalar
        text = _VARIABLE.sub(lambda found: values[found[1]] or "", scalar.text)
        return replace(scalar, text=text, value=text)


def _level(entries: Entries, written: Mapping[str, Written[Any]], *, is_users: bool) -> SettingsLevel:
    of_stages = {"provider", "model", "commands", "sandbox"}
    work = build_work(replace(entries, values={n: v for n, v in entries.values.items() if n in of_stages}))
    default: MappingSpec | None = entries.get("pipeline")
    return SettingsLevel(
        is_users,
        work,
        default.get("default_type") if default else None,
        default.get("supervised_by_default") if default else None,
        entries.get("network"),
        entries.get("delivery"),
        entries.get("notify", ()),
        entries.get("orchestration", {}),
        entries.get(LIMITS, {}),
        written,
    )


def _leaves(entries: list[Entry] | tuple[Entry, ...], within: str = "") -> Iterator[tuple[str, Written[Any]]]:
    """What isn't valid is reported where the keys are read."""
    for entry in entries:
        name = f"{within}{entry.key.text}"
        if isinstance(entry.value, Keyed) and entry.value.entries:
            yield from _leaves(entry.value.entries, f"{name}.")
        elif not is_null(entry.value):
            yield plain_key(name), Written(as_data(entry.value, f"`{name}`", Report()), entry.key.at)


def plain_key(name: str) -> str:
    """The shortest way to write a key: `provider` for `llm.provider`."""
    for longer, short in ALIASES.items():
        if name == longer or name.startswith(f"{longer}."):
            return f"{short}{name.removeprefix(longer)}"
    return name


def parts_of(key: str) -> list[str]:
    """The keys of the mappings; names and ids may contain dots."""
    match key.split("."):
        case ["commands", first, *more]:
            return ["commands", ".".join([first, *more])]
        case ["orchestration", "token_budget", first, *more]:
            return ["orchestration", "token_budget", ".".join([first, *more])]
        case ["orchestration", "stages", first, *more, last]:
            return ["orchestration", "stages", ".".join([first, *more]), last]
        case ["orchestration", *id] if key.endswith(TIMEOUT):
            return ["orchestration", ".".join(id)]
        case parts:
            return parts


def nested(values: Iterable[tuple[Sequence[str], Any]]) -> dict[str, Any]:
    """Mappings from the parts of keys."""
    found: dict[str, Any] = {}
    for (*parents, last), value in values:
        reduce(lambda inner, parent: inner.setdefault(parent, {}), parents, found)[last] = value
    return found


def top_of(key: str) -> str:
    """The key at the top of the file: `commands` of `commands.test`."""
    return key.partition(".")[0]


def _identity(key: str) -> str:
    """What may be written only once in a project."""
    return key if top_of(key) in BY_NAME else top_of(key)


def _united(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    both = {name: before[name] | now[name] for name in BY_NAME if name in before and name in now}
    return {**before, **now, **both}


def _validate_shares(settings: Settings, report: Report) -> None:
    shares = {
        key: value
        for key, value in settings.orchestration.items()
        if key.startswith("token_budget.") and key != f"token_budget.{TOTAL}"
    }
    total = sum(value.value for value in shares.values())
    if total > 100:
        message = f"the shares of `orchestration.token_budget` are {total:g} % in all; the maximum is 100"
        last = reduce(lambda _, value: value, shares.values())
        report.error("bad-value", last.at, message, "lower one of them")

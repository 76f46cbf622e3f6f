"""Third pass: resolves names to files: stages, prompts and nested pipelines. Also lists what can be run."""

import re
from collections.abc import Iterable
from posixpath import basename, dirname, join
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.executors import executed, has_executor
from agentforge.definition.read.check_keys import without_caps
from agentforge.definition.read.file_keys import read_pipeline, read_stage
from agentforge.definition.report import Report, SourceText, absolute, relative
from agentforge.definition.specs import (
    NodeSpec,
    PipelineSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedNode,
    ResolvedPipeline,
    ResolvedStage,
    StageSpec,
    WorkSpec,
)
from agentforge.definition.stage_files import configured
from agentforge.definition.stage_settings import StageSettings
from agentforge.definition.yaml_tree import Scalar, Written, parse_mapping
from agentforge.model.diagnostic import ARGUMENTS, choice
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import TEMPLATES
from agentforge.model.names import control_character
from agentforge.model.plan_limits import MAX_DEPTH, MAX_NODES
from agentforge.ports.sources import Sources

_STAGE_FILE = "stage.yaml"
_DEFAULT_PROMPTS = ("prompts/prompt.md", "prompt.md")
_PIPELINE_SUFFIXES = ("", ".yaml", ".yml")
_STAGE_NAME = re.compile(r"[^/\x00]+(?:/[^/\x00]+)*")
# Where names are searched, strongest first: the project, the folder beside the file that names them, the
# user's folders of environment variables, the shell engine's, ours. A project can so replace a built-in stage
# by one of its own, and a pipeline that is copied with its stages keeps using them.
#
# A pipeline that includes another one twice, which includes a third one twice, grows exponentially with its
# depth. Each file is read once (`Assembly`), but every inclusion is a node of the plan, so that their number
# is bounded while they are assembled, before anything walks all of them.


class FoundStage(Struct, frozen=True):
    directory: str
    spec: StageSpec | None
    """None if its file can't be read; the report has the error."""


class PromptSearch(Struct, frozen=True):
    path: str | None
    searched: tuple[str, ...]
    named_is_missing: bool = False


def stage_roots(sources: Sources, beside: str) -> tuple[str, ...]:
    """The folders of stages, strongest first; `beside` is the folder of the pipeline file."""
    return _roots(sources, "stages", "STAGES_DIR", join(beside, "stages"))


def pipeline_roots(sources: Sources) -> tuple[str, ...]:
    templates = (join(sources.project, folder) for folder in TEMPLATES)
    return _roots(sources, "pipelines", "PIPELINES_DIR", *templates)


def _roots(sources: Sources, kind: str, variable: str, *beside: str) -> tuple[str, ...]:
    roots = [join(sources.project, ".claude", kind), *beside]
    if folder := sources.environment.get(variable):
        roots.append(absolute(sources.project, folder))
    if shell_root := sources.environment.get("AGENT_PIPELINES_ROOT"):
        roots.append(absolute(sources.project, join(shell_root, "scripts", kind)))
    return (*roots, join(sources.builtin, kind))


def find_pipeline(sources: Sources, name: str, beside: str | None = None) -> str | None:
    """The path of a pipeline file, or None. A path is relative to the project or to `beside`, the including
    file's folder; a name is searched in `beside` and the folders of pipelines."""
    near = (beside,) if beside else ()
    if is_path(name):
        candidates = [absolute(folder, name) for folder in (sources.project, *near)]
    else:
        roots = (*near, *pipeline_roots(sources))
        named = [absolute(root, name + suffix) for root in roots for suffix in _PIPELINE_SUFFIXES]
        candidates = [absolute(sources.project, name), *named]
    return next((path for path in candidates if _exists(sources, path)), None)


def _exists(sources: Sources, path: str) -> bool:
    """Also true for a file that can't be read: compiling it reports the reason."""
    try:
        return sources.read(path) is not None
    except StorageFailed:
        return True


def is_path(name: str) -> bool:
    """Whether the reference to a pipeline is the path of a file; otherwise it is a name."""
    return "/" in name or name.endswith(_PIPELINE_SUFFIXES[1:])


def missing_pipeline(sources: Sources, name: str) -> tuple[str, str]:
    """The message and the hint for a pipeline that `find_pipeline` doesn't find."""
    names = pipeline_names(sources)
    if not is_path(name):
        return f"no pipeline named `{name}`", choice(name, "pipelines", names)
    if sources.is_dir(absolute(sources.project, name)):
        return f"`{name}` is a folder, not a pipeline file", "name a file in it"
    stem = basename(name).rsplit(".", 1)[0]
    hint = f"for the pipeline named `{stem}`, leave out the ending" if stem in names else "check the path"
    return f"no pipeline file `{name}`", hint


def is_stage_name(name: str) -> bool:
    is_path = _STAGE_NAME.fullmatch(name) and not {".", ".."} & set(name.split("/"))
    return bool(is_path) and not control_character(name)


def is_stage_folder(sources: Sources, folder: str) -> bool:
    """A stage needs no stage.yaml when it has a prompt."""
    return any(_exists(sources, join(folder, name)) for name in (_STAGE_FILE, *_DEFAULT_PROMPTS))


def find_prompt(sources: Sources, directory: str, named: str | None) -> PromptSearch:
    """The prompt that stage.yaml names, with or without `.md`, also in `prompts/`; else the default names."""
    stems = [absolute(directory, named)] if named else []
    if named and "/" not in named.removeprefix("./"):
        stems.append(absolute(join(directory, "prompts"), named))
    preferred = [path for stem in stems for path in (stem, f"{stem}.md")]
    defaults = [join(directory, name) for name in _DEFAULT_PROMPTS]
    searched = tuple(dict.fromkeys(preferred + defaults))
    path = next((path for path in searched if sources.read(path) is not None), None)
    return PromptSearch(path, searched, bool(preferred) and path not in preferred)


class StageLookup:
    """Finds and reads stages, each once."""

    def __init__(self, sources: Sources, beside: str, report: Report) -> None:
        self._sources = sources
        self._report = report
        self._beside = beside
        self._roots = stage_roots(sources, beside)
        self._found: dict[str, FoundStage | None] = {}

    def resolve(self, node: NodeSpec) -> ResolvedStage:
        if node.stage is None:
            return ResolvedStage(node, None, self._prompt_file(node.work))
        needs_folder = node.executor is None
        found = self.find(node.stage, is_needed=needs_folder) if is_stage_name(node.stage.value) else None
        if found is None and node.executor:
            return ResolvedStage(node, None, self._prompt_file(node.work))
        if found is None or found.spec is None:
            return ResolvedStage(node, None, None, is_found=False)
        if node.work.prompt or node.work.prompt_file:
            return ResolvedStage(node, found.spec, self._prompt_file(node.work))
        stage = ResolvedStage(node, found.spec, None)
        is_delivery = stage.stage_work.get("deliver") or node.work.get("deliver")
        needs_prompt = not (has_executor(stage) or is_delivery)
        path = self._prompt(node.stage, found.directory, found.spec, is_needed=needs_prompt)
        return replace(stage, prompt_path=path)

    def find(self, ref: Written[str], *, is_needed: bool = True) -> FoundStage | None:
        if ref.value not in self._found:
            folders = (join(root, ref.value) for root in self._roots)
            folder = next((folder for folder in folders if is_stage_folder(self._sources, folder)), None)
            self._found[ref.value] = self._load(folder) if folder else None
        found = self._found[ref.value]
        if found is None and is_needed:
            hint = choice(ref.value, "stages", _stage_folders(self._sources, self._roots))
            searched = ", ".join(self._shown(join(root, ref.value)) for root in self._roots)
            message = f"no stage named `{ref.value}`; searched {searched}"
            self._report.error("unknown-stage", ref.at, message, hint)
        return found

    def _load(self, folder: str) -> FoundStage:
        path = join(folder, _STAGE_FILE)
        text = self._sources.read(path)
        if text is None:
            prompt = find_prompt(self._sources, folder, None).path or folder
            source = SourceText(self._shown(prompt), self._sources.read(prompt) or "")
            return FoundStage(folder, StageSpec(source, WorkSpec()))
        source = SourceText(self._shown(path), text)
        tree = parse_mapping(source, self._report)
        return FoundStage(folder, read_stage(source, tree, self._report) if tree else None)

    def _prompt_file(self, work: WorkSpec) -> str | None:
        named = work.prompt_file
        if named is None:
            return None
        path = absolute(self._beside, named.value)
        if self._sources.read(path) is not None:
            return path
        if self._sources.is_dir(path):
            message, hint = f"the prompt file `{named.value}` is a folder", "name a file in it"
        else:
            message = f"no prompt file `{named.value}`; looked for {self._shown(path)}"
            hint = f"create it, or correct the path: it is relative to {self._shown(self._beside)}"
        self._report.error("missing-prompt", named.at, message, hint)
        return None

    def _prompt(self, ref: Written[str], directory: str, stage: StageSpec, *, is_needed: bool) -> str | None:
        named = stage.work.prompt
        search = find_prompt(self._sources, directory, named.value if named else None)
        at = named.at if named else ref.at
        if at.file == ARGUMENTS and stage.source.text:
            at = stage.source.start
        searched = ", ".join(self._shown(path) for path in search.searched)
        if search.path is None:
            if is_needed or named:
                message = f"no prompt found for stage `{ref.value}`; searched {searched}"
                hint = f"create {self._shown(join(directory, 'prompt.md'))}"
                self._report.error("missing-prompt", at, message, hint)
        elif search.named_is_missing and named:
            message = f"prompt `{named.value}` not found; using {self._shown(search.path)} instead"
            self._report.warning("missing-prompt", at, message, hint=f"searched {searched}")
        return search.path

    def _shown(self, path: str) -> str:
        return relative(self._sources.project, path)


def stage_folders(sources: Sources) -> dict[str, str]:
    """The folder of each stage, sorted by name."""
    return dict(sorted(_stage_folders(sources, stage_roots(sources, sources.project)).items()))


def _stage_folders(sources: Sources, roots: Iterable[str]) -> dict[str, str]:
    """In the order of the roots; a stage of a stronger one hides those of its name in weaker ones."""
    found: dict[str, str] = {}
    for root in roots:
        for name in sources.listing(root):
            if name not in found and is_stage_folder(sources, join(root, name)):
                found[name] = join(root, name)
    return found


def pipeline_names(sources: Sources) -> list[str]:
    files = (name for root in pipeline_roots(sources) for name in sources.listing(root))
    stems = (name.rsplit(".", 1)[0] for name in files if name.endswith((".yaml", ".yml")))
    return list(dict.fromkeys(stems))


class Available(Struct, frozen=True):
    name: str
    description: str
    path: str
    """Relative to the project if inside it."""
    is_builtin: bool = False


def available_stages(sources: Sources) -> list[Available]:
    folders = stage_folders(sources).items()
    return [_available(name, join(folder, _STAGE_FILE), folder, sources) for name, folder in folders]


def available_pipelines(sources: Sources) -> list[Available]:
    return [_available(name, path, path, sources) for name, path in pipeline_files(sources).items()]


def _available(name: str, file: str, path: str, sources: Sources) -> Available:
    """With the file's description; empty for an invalid file, which is still listed."""
    is_builtin, description = path.startswith(f"{sources.builtin}/"), ""
    try:
        tree = parse_mapping(SourceText(file, sources.read(file) or ""), Report())
    except StorageFailed:
        tree = None
    for entry in tree.entries if tree else ():
        value = entry.value
        if entry.key.text == "description" and isinstance(value, Scalar) and value.value is not None:
            description = " ".join(value.text.split())
    return Available(name, description, relative(sources.project, path), is_builtin)


def pipeline_files(sources: Sources) -> dict[str, str]:
    """The file of each pipeline, sorted by name."""
    found = {name: find_pipeline(sources, name) for name in sorted(pipeline_names(sources))}
    return {name: path for name, path in found.items() if path}


class Located(Struct, frozen=True):
    """A pipeline and its location, from which its names are resolved."""

    spec: PipelineSpec
    beside: str
    chain: tuple[str, ...]
    """The including files, itself last."""


class Assembly:
    """Finds and reads each nested pipeline and its stages once, however often it is included."""

    def __init__(
        self,
        sources: Sources,
        report: Report,
        overrides: tuple[WorkSpec, ...] = (),
        settings: StageSettings | None = None,
    ) -> None:
        self._sources = sources
        self._report = report
        self._overrides = overrides
        self._settings = settings
        self._nodes = 0
        self._paths: dict[tuple[str, str], str | None] = {}
        self._specs: dict[str, PipelineSpec | None] = {}
        self._lookups: dict[str, StageLookup] = {}

    def pipeline(self, located: Located, around: WorkSpec | None = None) -> ResolvedPipeline:
        """`around` is the level of the pipelines around it; None for the outermost."""
        spec, beside = configured(located.spec, self._sources, self._report), located.beside
        lookup = self._lookups.setdefault(beside, StageLookup(self._sources, beside, self._report))
        self._nodes += sum(1 + len(node.block.stages if node.block else ()) for node in spec.nodes)
        outer: dict[str, str] = around.values["commands"] if around else {}
        own: dict[str, Any] = {"commands": {**outer, **spec.values.get("commands", {})}}
        # The limits of the outermost pipeline are those of the run, not of each stage.
        if around and (limits := spec.get("limits")):
            own["limits"] = without_caps(limits)
        levels = (WorkSpec(own), *spec.levels)
        nodes = tuple(self._node(node, replace(located, spec=spec), lookup, levels) for node in spec.nodes)
        return ResolvedPipeline(spec, nodes)

    def _node(
        self, node: NodeSpec, located: Located, lookup: StageLookup, levels: tuple[WorkSpec, ...]
    ) -> ResolvedNode | None:
        if node.block:
            stages = []
            for position, stage in enumerate(node.block.stages):
                # The last stage has the result of a branch, so that only `approve: false` is for all of them.
                approve, is_last = node.work.get("approve"), position == len(node.block.stages) - 1
                is_off = isinstance(approve, Written) and not approve.value
                of_block = WorkSpec({"approve": approve} if approve and (is_off or is_last) else {})
                stages.append(self._stage(stage, lookup, (*levels, of_block), located))
            return ResolvedBlock(node, node.block, tuple(stages))
        if node.pipeline:
            nested = self._nested(node.pipeline, located)
            return ResolvedNested(node, self.pipeline(nested, levels[0])) if nested else None
        return self._stage(node, lookup, levels, located)

    def _stage(
        self, node: NodeSpec, lookup: StageLookup, around: tuple[WorkSpec, ...], located: Located
    ) -> ResolvedStage | None:
        found = lookup.resolve(node) if node.is_stage else None
        if found is None:
            return None
        found = executed(replace(found, around=around, overrides=self._overrides))
        return self._settings.applied(found, located.spec) if self._settings else found

    def _nested(self, ref: Written[str], located: Located) -> Located | None:
        searched = (ref.value, located.beside)
        if searched not in self._paths:
            self._paths[searched] = find_pipeline(self._sources, *searched)
        path = self._paths[searched]
        if path is None:
            self._report.error("unknown-pipeline", ref.at, *missing_pipeline(self._sources, ref.value))
            return None
        if path in located.chain:
            chain = " → ".join(relative(self._sources.project, step) for step in (*located.chain, path))
            message = f"the pipeline includes itself: {chain}"
            self._report.error("recursive-pipeline", ref.at, message, hint="remove one of the references")
            return None
        if len(located.chain) >= MAX_DEPTH or self._nodes > MAX_NODES:
            message = f"nested pipelines exceed {MAX_DEPTH} levels or {MAX_NODES} nodes"
            self._report.error("too-large", ref.at, message)
            return None
        if path not in self._specs:
            source = SourceText(relative(self._sources.project, path), self._sources.read(path) or "")
            tree = parse_mapping(source, self._report)
            self._specs[path] = read_pipeline(source, tree, self._report) if tree else None
        spec = self._specs[path]
        return Located(spec, dirname(path), (*located.chain, path)) if spec else None

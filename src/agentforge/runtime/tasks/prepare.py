"""Prepares an iteration: its folder, the progress file, context.json, the rendered prompt.

Repeating it after a crash writes the same files again; nothing is appended.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.errors import NOT_JSON, AgentForgeError, ProviderUnusable, UnusableFile
from agentforge.model.facts import AnyFact, ErrorOccurred, IterationStarted
from agentforge.model.failure import FailureKind
from agentforge.model.layout import IterationLayout
from agentforge.model.place import Place
from agentforge.model.plan import Judgment, Plan, StageNode
from agentforge.model.request import Feedback
from agentforge.model.secrets import from_marks, with_marks
from agentforge.model.state import position_of
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.ports.provider import Provider, StageInput
from agentforge.runtime.artifacts import StoredArtifacts, unusable
from agentforge.runtime.briefings import Briefings, Told
from agentforge.runtime.left_files import Refuse, ensure_folder, leave
from agentforge.runtime.tasks.call import TaskContext, is_program
from agentforge.system import files
from agentforge.views.artifacts import NO_INPUT, IterationInput
from agentforge.views.briefing import COVERED
from agentforge.views.files.context import MAX_PREVIOUS_OUTPUTS, ContextFile, Paths, context_file
from agentforge.views.history import History
from agentforge.views.prompt import (
    answers_text,
    feedback_text,
    item_text,
    render,
    request_text,
    substitute_session,
    with_quotations,
    with_result_instructions,
    with_schema,
)

SESSION_PROGRESS = """\
# Progress: {session}

Verify: {verify}

## Codebase Patterns
(Add patterns discovered during implementation here)

---

"""
SHORT_CONTEXT = 3
"""How many earlier outputs an iteration is pointed to after a timeout."""
STAGE_PROGRESS = "# Stage Progress\n\n---\n"
BRANCH_PROGRESS = "# Progress: {session} ({provider})\n\nProvider: {provider}\n\n---\n\n"


Preparing = PrepareTask | AgentTask
"""An attempt has all that its iteration was prepared from, so that the files can be written again."""


# An iteration's files are written without waiting for the disk, before its start is recorded, and the
# first attempt gets its prompt from memory (`_ready`). Every other attempt, of this engine or a later
# one, compares the file with the hash in the log, and has all of them written again if it differs. So a
# power failure, an agent that changed its own prompt and a project that was moved cost one more
# preparation, and need no case of their own.


class Prepared(Struct, frozen=True):
    """An iteration that this engine prepared: nothing has to be read from the disk."""

    prompt: str = ""
    """Empty: read it from its file."""
    is_new: bool = False
    """Whether its folder was created now, so that it can't contain leftovers."""


class _WrittenContext(Struct, frozen=True):
    """What is read of a context.json; an agent may have changed it."""

    paths: Paths


class Preparer:
    def __init__(
        self,
        context: TaskContext,
        history: History,
        *,
        is_light: Callable[[Place, StageNode], bool] = lambda _place, _node: False,
        writes_result: Callable[[StageNode], bool] = lambda _node: False,
        stored: StoredArtifacts | None = None,
        briefings: Briefings | None = None,
        refuse: Refuse = leave,
    ) -> None:
        """`is_light`: whether a stage's iterations need no files. `writes_result`: whether its prompt must
        ask for the result. `refuse`: moves aside what is in the place of a folder."""
        self._project = context.project
        self._layout = context.layout
        self._plan = context.plan
        self._history = history
        self.is_light = is_light
        self._writes_result = writes_result
        self._stored = stored
        self._briefings = briefings
        self._refuse = refuse
        self._ready: dict[tuple[Place, int], Prepared] = {}
        """Prepared by this engine, with the agent not started yet."""

    def do(self, task: Preparing, max_outputs: int = MAX_PREVIOUS_OUTPUTS) -> AnyFact:
        """Write the iteration's files; the outcome is `iteration_start`, or an error if the agent can't get
        what it needs. `max_outputs`: how many earlier outputs the agent is pointed to."""
        node = task.node
        if node.prompt is None:
            return ErrorOccurred(
                kind=FailureKind.PROMPT_UNREADABLE,
                message=f"the plan has no prompt for stage {node.id!r}: resume the run with --recompile",
                stage=node.id,
                attempt=0,
            )
        given = self._given(task)
        if isinstance(given, ErrorOccurred):
            return given
        light = self.is_light(task.place, node)
        progress = self._layout.progress(self._plan.mode, task.place.folder, task.place.scope)
        rendered = self._rendered(self._template(node, task, light=light), task, given, progress)
        if isinstance(rendered, ErrorOccurred):
            return rendered
        is_new = light or self._write_files(task, given, rendered, progress, max_outputs)
        self._ready[task.place, task.iteration] = Prepared(rendered.prompt, is_new)
        return IterationStarted(
            stage=node.label,
            type=node.stage,
            provider=node.provider.type,
            model=node.provider.model,
            prompt_sha256=sha256(rendered.prompt.encode()).hexdigest(),
            item=task.item.id if task.item else "",
            context=rendered.use,
        )

    def _given(self, task: Preparing) -> IterationInput | ErrorOccurred:
        """What it gets of artifacts."""
        node = task.node
        try:
            given = self._stored.input(task) if self._stored else NO_INPUT
        except UnusableFile as error:
            return unusable(node, f"{error.message}; {error.hint}".rstrip("; "))
        needed = node.sources.artifact if node.sources else ()
        if missing := [f"`{field}`" for field in needed if given.merged.get(field) is None]:
            return unusable(node, f"stage {node.id!r} needs {', '.join(missing)} of an earlier artifact")
        return given

    def _template(self, node: StageNode, task: Preparing, *, light: bool) -> str:
        """The prompt as it is written, extended by what it must not leave out."""
        template = node.prompt or ""
        strategy = node.context_strategy
        said = {"FEEDBACK": task.feedback, "ANSWERS": task.answers, "ITEM": task.item, "BRIEFING": strategy}
        briefed = COVERED[strategy] if strategy else ()
        names = [name for name, given in said.items() if given and name not in briefed]
        if names:
            template = with_quotations(template, names)
        if node.result_instructions and not light and self._writes_result(node):
            back = self._plan.returns_items(node)
            template = with_result_instructions(template, node.asked_verdicts, returns_items=back)
        return with_schema(template) if node.artifact and node.result_instructions else template

    def _rendered(
        self, template: str, task: Preparing, given: IterationInput, progress: str
    ) -> Told | ErrorOccurred:
        """With references only where the engine has put them: in the plan, and in what people said. They are
        marked meanwhile, since a text could be completed to a reference by the one beside it."""
        mark = sha256(msgspec.json.encode(task)).hexdigest()
        template = with_marks(template, self._plan.pipeline.secrets, mark)
        marked = _marked(task, mark)
        own = with_marks(task.node.context or "", self._plan.pipeline.secrets, mark)

        def filled(told: Told) -> str:
            """The prompt with this much of what people said and of the run."""
            said = replace(marked, feedback=told.feedback, answers=told.answers, notes=told.notes)
            values = {**self._values(said, given, progress, own), "BRIEFING": told.briefing}
            return from_marks(render(template, values), mark)

        told = Told(marked.feedback, marked.answers, marked.notes)
        if self._briefings is not None and (task.node.context_strategy or task.node.tokens):
            fitting = self._briefings.fitted(told, marked, given, template, filled)
            if isinstance(fitting, ErrorOccurred):
                return fitting
            told = fitting
        return replace(told, prompt=told.prompt or filled(told), briefing=from_marks(told.briefing, mark))

    def _write_files(
        self, task: Preparing, given: IterationInput, rendered: Told, progress: str, max_outputs: int
    ) -> bool:
        """Whether the folder is new."""
        here = self._here(task)
        # An agent may have put something else in its place.
        is_new = ensure_folder(here.root, self._layout.root, self._refuse)
        self._ensure_progress(task.place, task.node, progress)
        files.write(here.context, files.pretty(self._context(task, given, max_outputs)))
        files.write(here.prompt, rendered.prompt.encode())
        if given.is_large or (given.merged and "${INPUT_ARTIFACT}" in (task.node.prompt or "")):
            files.write(here.input, files.indented(given.encoded))
        if task.node.context_strategy:
            files.write(here.briefing, rendered.briefing.encode())
        return is_new

    def input_of(self, task: AgentTask) -> StageInput:
        """The same as data, for a provider that reads no prompt. Raises ProviderUnusable."""
        node, stored = task.node, self._stored
        assert stored is not None
        try:
            given = stored.input(task)
            previous = stored.value(given.previous) if given.previous else None
        except UnusableFile as error:
            raise ProviderUnusable(error.message, hint=error.hint) from error
        return StageInput(
            pipeline=self._plan.pipeline.name,
            index=position_of(task.place.path),
            visit=task.place.run,
            user_request=task.user_request.text if task.user_request else "",
            artifact={**given.merged, **stored.keys.values},
            artifacts=dict(given.by_stage),
            previous=previous,
            feedback=task.feedback.text if task.feedback else None,
            answers={one.question: one.answer for one in task.answers},
            timeout=node.timeout,
            max_tokens=node.tokens.total if node.tokens else None,
        )

    def prepared(self, task: AgentTask) -> Prepared | ErrorOccurred:
        """The iteration of an attempt that is about to start."""
        ready = self._ready.pop((task.place, task.iteration), None)
        if ready is not None and task.attempt == 1:
            return ready
        return self._restored(task)

    def _restored(self, task: AgentTask) -> Prepared | ErrorOccurred:
        """Make sure that an iteration prepared earlier has its files: they were written without waiting for
        the disk, so a power failure may have lost them. They contain paths, so they are written again if the
        project was moved. After a timeout, the context is shorter."""
        here = self._here(task)
        max_outputs = SHORT_CONTEXT if task.brief else MAX_PREVIOUS_OUTPUTS
        prompt = None if self.is_light(task.place, task.node) else files.read_usable(here.prompt)
        if (
            prompt is not None
            and sha256(prompt).hexdigest() == task.prompt_sha256
            and self._is_of_this_place(here.context)
        ):
            if task.brief:
                given = self._given(task)
                if isinstance(given, ErrorOccurred):
                    return replace(given, attempt=task.attempt, started=False)
                files.replace(here.context, files.pretty(self._context(task, given, max_outputs)))
            return Prepared(prompt.decode("utf-8", "replace"))
        outcome = self.do(task, max_outputs)
        again_ready = self._ready.pop((task.place, task.iteration), Prepared())
        if isinstance(outcome, ErrorOccurred):
            return replace(outcome, attempt=task.attempt, started=False)
        return replace(again_ready, is_new=False)

    def _is_of_this_place(self, context: str) -> bool:
        try:
            written = msgspec.json.decode(files.read_usable(context) or b"", type=_WrittenContext)
        except NOT_JSON:
            return False
        return written.paths.session_dir == self._layout.root

    def _here(self, task: Preparing) -> IterationLayout:
        return self._layout.iteration(task.place.folder, task.iteration)

    def _context(self, task: Preparing, given: IterationInput, max_outputs: int) -> ContextFile:
        task = replace(task, feedback=self._feedback(task))
        return context_file(
            task, self._plan, self._layout, self._history, given=given, max_previous=max_outputs
        )

    def _feedback(self, task: Preparing) -> Feedback | None:
        """With absolute paths of those files that exist: an agent may have printed nothing."""
        if task.feedback is None:
            return None
        paths = self._layout.absolutes(task.feedback.files)
        return replace(task.feedback, files=tuple(path for path in paths if files.is_file(path)))

    def _values(self, task: Preparing, given: IterationInput, progress: str, own: str) -> dict[str, str]:
        """`own`: the context that the definition has."""
        here, rule = self._here(task), task.node.artifact
        session = self._plan.session.name
        return {
            "CTX": here.context,
            "STATUS": here.status,
            "RESULT": here.result,
            "PROGRESS": progress,
            "PROGRESS_FILE": progress,
            "OUTPUT": here.output,
            "OUTPUT_PATH": output_path(self._project, task.node, session) or "",
            "SESSION": session,
            "SESSION_NAME": session,
            "ITERATION": str(task.iteration),
            "INDEX": str(task.iteration - 1),
            "CONTEXT": "\n".join((*([own] if own else []), *(note.text for note in task.notes))),
            "FEEDBACK": feedback_text(self._feedback(task)),
            "ANSWERS": answers_text(task.answers),
            "REQUEST": request_text(task.user_request),
            "ARTIFACT": here.artifact if rule else "",
            "SCHEMA": msgspec.json.format(msgspec.json.encode(rule.agent_schema)).decode() if rule else "",
            "INPUT_ARTIFACT": here.input if given.merged else "",
            "ITEM": item_text(task.item, given.element),
        }

    def _ensure_progress(self, place: Place, node: StageNode, path: str) -> None:
        """Create the progress file once; from then on it belongs to the agents."""
        if files.is_file(path):
            return
        text = STAGE_PROGRESS
        if place.branch is not None:
            text = BRANCH_PROGRESS.format(session=self._plan.session.name, provider=place.branch)
        if self._plan.mode == "loop":
            verify = (self._plan.pipeline.commands | node.commands).get("test", "(none)")
            text = SESSION_PROGRESS.format(session=self._plan.session.name, verify=verify)
        # Atomic: a partial file left by a crash would never be completed.
        files.replace(path, text.encode())


def _marked(task: Preparing, mark: str) -> Preparing:
    """With marks in the place of references in what people said."""
    notes = (replace(note, text=with_marks(note.text, note.secrets, mark)) for note in task.notes)
    answers = (
        replace(
            each,
            answer=with_marks(each.answer, each.secrets, mark),
            text=with_marks(each.text, each.secrets, mark),
            secrets=(),
        )
        for each in task.answers
    )
    told = task.feedback
    feedback = replace(told, text=with_marks(told.text, told.secrets, mark)) if told else None
    wanted = task.user_request
    wanted = replace(wanted, text=with_marks(wanted.text, wanted.secrets, mark)) if wanted else None
    return replace(task, notes=tuple(notes), answers=tuple(answers), feedback=feedback, user_request=wanted)


def output_path(project: str, node: StageNode, session: str) -> str | None:
    """The stage's output path, absolute, or None."""
    if node.output_path is None:
        return None
    return os.path.join(project, substitute_session(node.output_path, session))


def result_writers(provider_of: Callable[[str], Provider]) -> Callable[[StageNode], bool]:
    """Whether any provider of a stage writes its result only if the prompt asks for it."""

    def writes(node: StageNode) -> bool:
        for choice in node.chain:
            with suppress(AgentForgeError):
                if provider_of(choice.type).capabilities().writes_result:
                    return True
        return False

    return writes


class LightStages:
    """Caches the answers, since it is called for every iteration."""

    def __init__(self, plan: Plan, provider_of: Callable[[str], Provider], *, is_kept: bool) -> None:
        """`is_kept`: whether the run is recorded, which needs the files of iterations."""
        self._provider_of = provider_of
        self._is_kept = is_kept
        self._inputs = {
            source.path
            for step in plan.steps
            for stage in step.stages
            for source in (stage.sources.from_stage if stage.sources else ())
        }
        """Paths of stages whose outputs other stages read."""
        self._known: dict[tuple[str, str | None], bool] = {}

    def __call__(self, place: Place, node: StageNode) -> bool:
        key = (place.path, place.branch)
        if key not in self._known:
            # The manifest of a block lists the files of its stages, and a judge reads those of its stage.
            is_read = place.branch is not None or isinstance(node.termination, Judgment)
            is_read = is_read or node.output_path is not None or place.path in self._inputs
            is_needed = self._is_kept or is_read
            self._known[key] = not is_needed and all(self._reads_none(choice.type) for choice in node.chain)
        return self._known[key]

    def _reads_none(self, name: str) -> bool:
        try:
            provider = self._provider_of(name)
        except AgentForgeError:
            return False
        return not is_program(provider) and not provider.capabilities().uses_files

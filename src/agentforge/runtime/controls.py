"""Controls: what people ask of a run, as files in `control/`."""

import os
import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from agentforge.model import facts as f
from agentforge.model.layout import RunLayout
from agentforge.model.secrets import SecretReferences
from agentforge.runtime.left_files import Refuse, is_folder, leave, leave_file, read_left
from agentforge.system import files

ControlAction = Literal["pause", "cancel", "restart", "steer"]

_CONTROL_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,99})\.json", re.ASCII)


class ControlFile(Struct, frozen=True, omit_defaults=True):
    """The content of a control; its id is the name of the file."""

    action: ControlAction
    reason: str
    """Of a steering, the text."""
    now: bool = False
    by: str = "person"
    provider: str | None = None
    """The branch of the stage to restart, inside a parallel block."""
    visit: str = ""
    """The visit to restart (see `visit_name`): a control that comes too late doesn't restart another."""
    secrets: dict[str, str] = {}
    """Of the variables whose values were in the text of a steering: that its writer had them."""


class Control(ControlFile, frozen=True, kw_only=True):
    id: str

    @property
    def signed(self) -> str:
        """What the proofs in `secrets` are about."""
        return f"{self.id}\0{self.reason}"

    def fact(self, secrets: SecretReferences) -> f.ControlFact:
        """The control as an event."""
        match self.action:
            case "pause":
                return f.PauseRequested(self.reason, now=self.now, control=self.id)
            case "cancel":
                return f.CancelRequested(self.reason, control=self.id)
            case "restart":
                return f.RestartRequested(self.reason, self.by, self.provider, control=self.id)
            case "steer":
                known = secrets.proven(self.secrets, self.signed)
                return f.NoteAdded(self.reason, self.by, self.id, known)


def visit_name(path: str, run: int) -> str:
    return f"{path}/{run}"


def send_control(layout: RunLayout, control: Control) -> None:
    """Write a control for the driver; durable when this returns."""
    leave_file(layout.control, control.id, control)


def pending_controls(layout: RunLayout, refuse: Refuse = leave) -> list[Control]:
    """Controls not yet processed, oldest first (their ids start with the time)."""
    if not os.path.lexists(layout.control):
        # The common case, checked several times in every iteration.
        return []
    if not is_folder(layout.control, refuse):
        return []
    found = (_control(layout.control, name, refuse) for name in sorted(files.listing(layout.control)))
    return [control for control in found if control is not None]


def _control(folder: str, name: str, refuse: Refuse) -> Control | None:
    if name.startswith(".") or not name.endswith(".json"):
        return None  # A draft, or a file that was moved aside.
    path, id = os.path.join(folder, name), _CONTROL_NAME.fullmatch(name)
    given = read_left(path, ControlFile) if id else None
    if id is None or given is None:
        refuse(path, "it is not a valid control")
        return None
    return Control(**asdict(given), id=id[1])


def control_path(layout: RunLayout, control: Control) -> str:
    return os.path.join(layout.control, f"{control.id}.json")


def drop_control(layout: RunLayout, control: Control) -> None:
    """Called once the control's request is durable in the log."""
    # After a crash before this, the next engine finds it again, and its id in the log: it isn't obeyed twice.
    files.remove(control_path(layout, control))


def drop_pauses(layout: RunLayout) -> None:
    """Called on resume: discard pauses that were requested before and not yet processed."""
    # They were meant for an engine that is gone, and would end the resumed run at once.
    for control in pending_controls(layout):
        if control.action == "pause":
            drop_control(layout, control)

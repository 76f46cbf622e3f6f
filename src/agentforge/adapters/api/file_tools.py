"""The tools that read and change files of the workspace."""

from agentforge.adapters.api.workspace import Entry, ToolError, Workspace

READ_BYTES = 256 * 1024
EDIT_BYTES = 4 * 1024 * 1024
MOST_ENTRIES = 1000


class FileTools:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.touched: list[str] = []
        """What was written, in the order in which it first was."""

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        content, size = self._workspace.read(path, EDIT_BYTES)
        wanted = _text(path, content).splitlines(keepends=True)[max(first_line, 1) - 1 :]
        chosen = "".join(wanted if lines is None else wanted[: max(lines, 0)])
        encoded = chosen.encode()
        if len(encoded) <= READ_BYTES and size <= EDIT_BYTES:
            return chosen
        kept = encoded[:READ_BYTES].decode("utf-8", "ignore")
        return f"{kept}\n[cut: the file has {size} bytes; read on with first_line and lines]"

    def write_file(self, path: str, content: str) -> str:
        data = content.encode("utf-8", "replace")
        self._note(self._workspace.write(path, data))
        return f"wrote {path} ({len(data)} bytes)"

    def edit_file(self, path: str, old: str, new: str) -> str:
        if not old:
            raise ToolError("`old` is empty; give the text to replace, or use write_file")
        content, size = self._workspace.read(path, EDIT_BYTES)
        if size > EDIT_BYTES:
            raise ToolError(f"{path}: too large to edit ({size} bytes)")
        text = _text(path, content)
        found = text.count(old)
        if found != 1:
            raise ToolError(
                f"{path}: `old` occurs {found} times and must occur exactly once; "
                + ("read the file and copy the text exactly" if not found else "add lines around it")
            )
        self._note(self._workspace.write(path, text.replace(old, new).encode("utf-8", "replace")))
        return f"edited {path}"

    def list_directory(self, path: str = ".") -> str:
        entries = self._workspace.entries(path)
        shown = [_line(entry) for entry in entries[:MOST_ENTRIES]]
        if len(entries) > MOST_ENTRIES:
            shown.append(f"[{len(entries) - MOST_ENTRIES} more]")
        return "\n".join(shown) or "(empty)"

    def _note(self, path: str) -> None:
        if path not in self.touched:
            self.touched.append(path)


def _text(path: str, content: bytes) -> str:
    if b"\0" in content[:8192]:
        raise ToolError(f"{path}: is a binary file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end >= len(content) - 1 and len(content) >= EDIT_BYTES:
            return content.decode("utf-8", "ignore")
        raise ToolError(f"{path}: is not UTF-8 text") from error


def _line(entry: Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name} ({entry.size} bytes)"
        case kind:
            return f"{entry.name} ({kind})"

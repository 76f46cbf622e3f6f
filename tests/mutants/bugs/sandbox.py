"""Bugs in what an agent may see and touch."""

from tests.mutants.mutation import Mutation as Bug

BWRAP = "agentforge.adapters.sandboxes.bwrap"
DOCKER = "agentforge.adapters.sandboxes.docker"
MOUNTS = "agentforge.adapters.sandboxes.mounts"
CONFINE = "agentforge.runtime.tasks.call"
WORKSPACE = "agentforge.tool_loop.workspace"

BUGS = (
    Bug(BWRAP, "IPC is shared with the machine", '"--unshare-ipc", ', ""),
    Bug(BWRAP, "processes are shared with the machine", '"--unshare-pid", ', ""),
    Bug(
        BWRAP, "the network is open where it mustn't be", '() if choice.network else ("--unshare-net",)', "()"
    ),
    Bug(BWRAP, "root keeps its powers", '        *("--cap-drop", "ALL"),\n', ""),
    Bug(
        BWRAP,
        "kernel switches can be written",
        'for word in ("--ro-bind-try", path, path)',
        'for word in ("--bind-try", path, path)',
    ),
    Bug(
        BWRAP,
        "the machine is writable",
        '            *(program, "--ro-bind", "/", "/"',
        '            *(program, "--bind", "/", "/"',
    ),
    Bug(
        BWRAP,
        "readable folders are writable",
        'return ("--ro-bind", source, mount.path)',
        'return ("--bind", source, mount.path)',
    ),
    Bug(BWRAP, "the home is visible", "for path in (*EMPTIED, home) if", "for path in EMPTIED if"),
    Bug(BWRAP, "hidden folders can be written to", '("--remount-ro", path)', '("--dir", path)'),
    Bug(
        BWRAP, "the agent survives the program around it", ', *confined, "--die-with-parent")', ", *confined)"
    ),
    Bug(DOCKER, "the network of a container is open", '"bridge" if choice.network else "none"', '"bridge"'),
    Bug(
        DOCKER,
        "a container keeps root's powers",
        '*("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),',
        "",
    ),
    Bug(
        DOCKER,
        "a container runs as root",
        '*("--user", user, "--workdir", within.workspace)',
        '*("--workdir", within.workspace)',
    ),
    Bug(DOCKER, "a container outlives its agent", ', after=(client, "rm", "-f", name)', ""),
    Bug(DOCKER, "two attempts share a container", "hashlib.sha256(mark.encode())", "hashlib.sha256()"),
    Bug(
        DOCKER,
        "the machine's own variables reach the container",
        "return not any(fnmatchcase(variable, pattern) for pattern in KEPT_OUT)",
        "return True",
    ),
    Bug(
        DOCKER,
        "readable folders are writable",
        'f"{mount.path}:{mount.path}:ro"',
        'f"{mount.path}:{mount.path}"',
    ),
    Bug(
        MOUNTS,
        "the runs are writable",
        "        *(Mount(path, Visibility.READABLE) for path in within.protected),\n",
        "",
    ),
    Bug(
        MOUNTS,
        "the iteration's own folder is not writable",
        "        *(Mount(path, Visibility.WRITABLE) for path in within.writable),\n",
        "",
    ),
    Bug(
        MOUNTS,
        "a folder around a protected one can be moved",
        "        *(Mount(path, Visibility.WRITABLE) for path in _pins(within)),\n",
        "",
    ),
    Bug(
        MOUNTS,
        "an outer mount hides an inner one",
        'key=lambda path: (path.count("/"), path)',
        'key=lambda path: (-path.count("/"), path)',
    ),
    Bug(
        MOUNTS,
        "run-2 counts as below run",
        'path.startswith(folder.rstrip("/") + "/")',
        'path.startswith(folder.rstrip("/"))',
    ),
    Bug(CONFINE, "an attempt's own files aren't protected", "(self._runs, place.root)", "(self._runs,)"),
    Bug(CONFINE, "other runs aren't protected", "(self._runs, place.root)", "(place.root,)"),
    Bug(CONFINE, "the sandbox is left out", 'if choice is None or choice.type == "none":', "if True:"),
    Bug(WORKSPACE, ".git is written through ./.git", 'if step not in ("", ".")', 'if step not in ("",)'),
    Bug(
        WORKSPACE, ".git is written through a link", 'parts = spot.path.split("/")', 'parts = path.split("/")'
    ),
    Bug(
        WORKSPACE,
        "run-2 counts as protected like run",
        'path == folder or path.startswith(f"{folder}/")',
        "path.startswith(folder)",
    ),
    Bug(
        WORKSPACE,
        "a link may lead outside",
        'raise ToolError(f"{self._shown}: a link that leads outside the workspace")',
        "pass",
    ),
    Bug(
        WORKSPACE,
        "`..` may lead outside",
        'raise ToolError(f"{self._shown}: leads outside the workspace")',
        "return",
    ),
    Bug(
        WORKSPACE,
        "an absolute path may lead outside",
        'raise ToolError(f"{path}: outside the workspace; use a path relative to it")',
        "return path.lstrip('/')",
    ),
    Bug(
        WORKSPACE,
        "the pipeline's files are written by tools",
        "if below(spot.path, self._protected) > below(spot.path, self._writable):",
        "if False:",
    ),
    Bug(
        WORKSPACE,
        "a pipe stops the tool for ever",
        "os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC",
        "os.O_NOFOLLOW | os.O_CLOEXEC",
    ),
    Bug(WORKSPACE, "a script loses its mode", "return stat.S_IMODE(mode)", "return 0o666"),
)

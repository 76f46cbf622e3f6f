"""Bugs in sandboxes and in the file access of tools."""

from tests.mutants.mutation import Mutation as Bug

BWRAP = "agentforge.adapters.sandboxes.bwrap"
ARGUMENTS = ("tests/adapters/test_bwrap_arguments.py",)
DOCKER = "agentforge.adapters.sandboxes.docker"
MOUNTS = "agentforge.adapters.sandboxes.mounts"
CONFINE = "agentforge.runtime.confinement"
REPOSITORY = "agentforge.system.repository"
GUARD = "agentforge.runtime.git_guard"
PROMISE = ("tests/security/test_git_promise.py",)
CONFINED = "agentforge.system.confined"
FOLDERS = "agentforge.system.folders"
WORKSPACE = "agentforge.tool_loop.workspace"
COMMANDS = "agentforge.tool_loop.tools.command_rules"
GIT = "agentforge.system.git"
PLAYER = "agentforge.adapters.providers.replay_player"
REFUSALS = "agentforge.app.runs.replay"
OF_COMMANDS = ("tests/security/test_api_commands.py",)
OF_REPLAYS = ("tests/sdk/test_recording.py", "tests/adapters/test_replay_provider.py")

BUGS = (
    Bug(
        BWRAP,
        "sockets of servers are visible without the network",
        "[] if choice.network else sockets(emptied)",
        "[]",
        ARGUMENTS,
    ),
    Bug(
        BWRAP,
        "the agent's environment is that of bwrap, too",
        "return replace(command, argv=argv, env={},",
        "return replace(command, argv=argv,",
        ARGUMENTS,
    ),
    Bug(BWRAP, "IPC is shared with the host", '"--unshare-ipc", ', ""),
    Bug(BWRAP, "processes are shared with the host", '"--unshare-pid", ', ""),
    Bug(
        BWRAP,
        "the network is reachable where that is forbidden",
        '() if choice.network else ("--unshare-net",)',
        "()",
    ),
    Bug(BWRAP, "root keeps its capabilities", '        *("--cap-drop", "ALL"),\n', ""),
    Bug(
        BWRAP,
        "kernel settings are writable",
        'for word in ("--ro-bind-try", path, path)',
        'for word in ("--bind-try", path, path)',
    ),
    Bug(
        BWRAP,
        "the host is writable",
        'str(DESCRIPTOR), "--ro-bind", "/", "/"',
        'str(DESCRIPTOR), "--bind", "/", "/"',
    ),
    Bug(
        BWRAP,
        "read-only folders are writable",
        'return ("--ro-bind", source, mount.path)',
        'return ("--bind", source, mount.path)',
    ),
    Bug(BWRAP, "the home directory is visible", "for path in (*EMPTIED, home) if", "for path in EMPTIED if"),
    Bug(BWRAP, "hidden folders are writable", '("--remount-ro", path)', '("--dir", path)'),
    Bug(BWRAP, "the agent survives bwrap", ', *confined, "--die-with-parent")', ", *confined)"),
    Bug(
        DOCKER,
        "the network of a container is reachable",
        '"bridge" if choice.network else "none"',
        '"bridge"',
    ),
    Bug(
        DOCKER,
        "a container keeps the capabilities of root",
        '*("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),',
        "",
    ),
    Bug(
        DOCKER,
        "a container runs as root",
        '*("--user", user, "--workdir", within.workspace)',
        '*("--workdir", within.workspace)',
    ),
    Bug(
        DOCKER,
        "a container outlives its agent",
        'return (self._client(), "rm", "-f", container_name(mark))',
        "return ()",
    ),
    Bug(DOCKER, "two attempts share a container", "hashlib.sha256(mark.encode())", "hashlib.sha256()"),
    Bug(
        DOCKER,
        "variables of the host reach the container",
        "return not any(fnmatchcase(variable, pattern) for pattern in KEPT_OUT)",
        "return True",
    ),
    Bug(
        DOCKER,
        "read-only folders are writable",
        'f"{mount.path}:{mount.path}:ro"',
        'f"{mount.path}:{mount.path}"',
    ),
    Bug(
        MOUNTS,
        "the attempt's records are writable",
        "        *(Mount(path, Visibility.READABLE) for path in within.protected),\n",
        "",
    ),
    Bug(
        MOUNTS,
        "the folder of the iteration isn't writable",
        "        *(Mount(path, Visibility.WRITABLE) for path in within.writable),\n",
        "",
    ),
    Bug(
        MOUNTS,
        "the parent of a protected folder can be moved",
        "return between if mounted.get(parent) is Visibility.WRITABLE else []",
        "return []",
    ),
    Bug(
        MOUNTS,
        "an outer mount hides an inner one",
        'key=lambda path: (path.count("/"), path)',
        'key=lambda path: (-path.count("/"), path)',
    ),
    Bug(
        MOUNTS,
        "run-2 counts as a subfolder of run",
        'path.startswith(folder.rstrip("/") + "/")',
        'path.startswith(folder.rstrip("/"))',
    ),
    Bug(
        MOUNTS,
        "programs in the workspace are writable",
        "        *(Mount(path, Visibility.READABLE) for path in programs),\n",
        "",
    ),
    Bug(
        CONFINE,
        "the files of the attempt aren't protected",
        "*self._readable(scope), place.root,",
        "*self._readable(scope),",
    ),
    Bug(CONFINE, "other runs aren't hidden", "hidden = [self._runs, os", "hidden = [os"),
    Bug(CONFINE, "other branches aren't hidden", "] if scope else []", "] if False else []"),
    Bug(CONFINE, "definitions aren't protected", "place.root, *self._guarded(choice, place))", "place.root)"),
    Bug(
        CONFINE,
        "a missing folder of definitions becomes a file",
        "            if is_folder:\n                self._placeholders.make(path)\n",
        "            if False:\n                pass\n",
        ("tests/runtime/test_confinement.py",),
    ),
    Bug(CONFINE, "the sandbox is skipped", "if not is_confined(choice):", "if True:"),
    Bug(
        REPOSITORY,
        "hooks of submodules aren't protected",
        "submodules = tuple(_submodules(place))",
        "submodules: tuple[str, ...] = ()",
    ),
    Bug(
        GUARD,
        "new repositories in the project stay",
        'reason = "" if is_known else self._why_unsafe(place, before)',
        'reason = ""',
        PROMISE,
    ),
    Bug(GUARD, "settings that appear stay", "if _is_there(path)", "if False", PROMISE),
    Bug(
        GUARD,
        "known repositories are taken for new ones",
        "get(place) == about",
        "get(place) is about",
        PROMISE,
    ),
    Bug(
        GUARD,
        "repositories behind links stay",
        "elif reason and before.repositories",
        "elif False and before.repositories",
        PROMISE,
    ),
    Bug(
        REPOSITORY,
        "settings of a worktree that appear are used",
        "if is_used or os.path.lexists(path):",
        "if os.path.lexists(path):",
        PROMISE,
    ),
    Bug(
        FOLDERS,
        "files of the pipeline are writable as ./.claude",
        'if step not in ("", ".")',
        'if step not in ("",)',
    ),
    Bug(
        WORKSPACE,
        ".git is writable through a link",
        "place = folded(resolved)",
        "place = folded(path)",
    ),
    Bug(WORKSPACE, ".git is writable as .GIT", "place = folded(resolved)", "place = resolved"),
    Bug(
        WORKSPACE,
        ".git is writable in a subfolder",
        'if ".git" in place.split("/"):',
        'if place.split("/")[0] == ".git":',
    ),
    Bug(
        WORKSPACE,
        "run-2 counts as a protected subfolder of run",
        'path == folder or path.startswith(f"{folder}/")',
        "path.startswith(folder)",
    ),
    Bug(
        FOLDERS,
        "a link may lead outside the workspace",
        'raise OutsideRoot(errno.EXDEV, "is a link that leads outside the workspace")',
        "pass",
    ),
    Bug(
        FOLDERS,
        "`..` may lead outside the workspace",
        'raise OutsideRoot(errno.EXDEV, "is outside the workspace")',
        "return",
    ),
    Bug(
        CONFINED,
        "an absolute path may lead outside the workspace",
        'raise OutsideRoot(errno.EXDEV, "is outside the workspace; use a path relative to it")',
        "return path.lstrip('/')",
    ),
    Bug(
        WORKSPACE,
        "tools can write the files of the pipeline",
        "if below(place, self._protected) > below(place, self._writable):",
        "if False:",
    ),
    Bug(CONFINED, "a script loses its file mode", "return stat.S_IMODE(mode)", "return 0o666"),
    Bug(
        GIT,
        "git fetches what is missing",
        '    "GIT_ALLOW_PROTOCOL": "",\n    "GIT_NO_LAZY_FETCH": "1",\n',
        "",
        ("tests/security/test_git.py",),
    ),
    Bug(
        GIT,
        "git asks a monitor of the repository",
        '    "core.fsmonitor=false",\n',
        "",
        ("tests/security/test_git.py",),
    ),
    Bug(
        GIT,
        "git works in the repository of a hook",
        'if not name.startswith("GIT_") or name in _KEPT',
        "",
        ("tests/security/test_git.py",),
    ),
    Bug(
        COMMANDS,
        "a model reads files elsewhere with git",
        "or _leads_out(word, root)",
        "",
        OF_COMMANDS,
    ),
    Bug(
        COMMANDS,
        "an unknown option of git is accepted",
        'return word.partition("=")[0][2:] not in {"", *_PLAIN_OPTIONS}',
        "return False",
        OF_COMMANDS,
    ),
    Bug(
        PLAYER,
        "a replay writes to .git through a link",
        'for name in (*path.split("/"), *resolved.split("/")):',
        'for name in path.split("/"):',
        OF_REPLAYS,
    ),
    Bug(
        PLAYER,
        "a replay runs commands without permission",
        'elif step["do"] == "run" and not options.allow_commands:',
        "elif False:",
        OF_REPLAYS,
    ),
    Bug(
        REFUSALS,
        "a replay overwrites uncommitted work",
        "return content not in recorded and blob.hexdigest() != committed",
        "return False",
        OF_REPLAYS,
    ),
)

"""Bugs in what keeps repositories, run folders and agents from being trusted: links, limits, the proof of a
run, protected names, hosts of keys, control characters, a displaced log."""

from tests.mutants.mutation import Mutation as Bug

FILES = "agentforge.system.files"
FOLDERS = "agentforge.system.folders"
CONFINED = "agentforge.system.confined"
OPENAT2 = "agentforge.system.openat2"
TOOLS = "agentforge.system.tools"
PROOF = "agentforge.runtime.run_proof"
STATE_FOLDER = "agentforge.runtime.state_folder"
TRUST = "agentforge.app.runs.trust"
HOSTS = "agentforge.model.key_hosts"
NAMES = "agentforge.model.protected_names"
CHARACTERS = "agentforge.model.control_characters"
DISPLACEMENT = "agentforge.adapters.log.displacement"

OF_FILES = ("tests/system/test_files.py",)
OF_FOLDERS = ("tests/system/test_folders.py", "tests/system/test_files.py")
OF_CONFINED = ("tests/system/test_confined.py", "tests/adapters/test_tool_loop_workspace.py")
OF_TOOLS = ("tests/system/test_tools.py",)
OF_PROOF = ("tests/runtime/test_run_proof.py",)
OF_TRUST = ("tests/security/test_foreign_runs.py",)
OF_HOSTS = ("tests/model/test_key_hosts.py",)
OF_NAMES = ("tests/model/test_protected_names.py",)
OF_CHARACTERS = ("tests/definition/test_control_characters.py",)
OF_DISPLACEMENT = ("tests/adapters/test_displaced_log.py",)

BUGS = (
    # -- links and other files than regular ones
    Bug(OPENAT2, "the system call follows links", "_NO_LINKS = 0x04", "_NO_LINKS = 0x00", OF_FOLDERS),
    Bug(FOLDERS, "a pipe blocks the engine", "os.O_NOFOLLOW | os.O_NONBLOCK", "os.O_NOFOLLOW", OF_FOLDERS),
    Bug(FOLDERS, "links are followed for ever", "if self._links > MAX_LINKS:", "if False:", OF_CONFINED),
    Bug(
        FOLDERS,
        "a folder beside the workspace counts as inside",
        'target.startswith(self._root_path.rstrip("/") + "/")',
        "target.startswith(self._root_path)",
        OF_CONFINED,
    ),
    Bug(
        FOLDERS,
        "an absolute link is resolved from where it is",
        "        while self._names:\n            self._back()\n",
        "",
        OF_CONFINED,
    ),
    Bug(
        FOLDERS,
        "folders are made without asking",
        '            make("/".join((*self._names, name)))\n',
        "",
        ("tests/adapters/test_api_workspace_protected.py", *OF_CONFINED),
    ),
    Bug(FOLDERS, "another owner's draft is removed", "found[2].startswith(owner)", "True", OF_CONFINED),
    Bug(
        CONFINED,
        "an absolute path beside the workspace counts as inside",
        'path.startswith(root.rstrip("/") + "/")',
        "path.startswith(root)",
        OF_CONFINED,
    ),
    Bug(
        CONFINED,
        "more is read than was asked for",
        "os.read(descriptor, limit - len(content))",
        "os.read(descriptor, 1 << 16)",
        OF_CONFINED,
    ),
    Bug(
        CONFINED,
        "a file is written without asking",
        "            check(resolved.path)\n",
        "",
        ("tests/adapters/test_api_workspace_protected.py",),
    ),
    Bug(
        CONFINED,
        "a failed write leaves its draft",
        "                with suppress(OSError):\n                    os.unlink(draft, dir_fd=resolved.folder)\n",
        "                pass\n",
        OF_CONFINED,
    ),
    Bug(FILES, "a folder in the way is an error", "        _aside(into, target)\n", "", OF_FILES),
    Bug(
        FILES,
        "a removed folder's links are followed",
        "    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)\n",
        "    return stat.S_ISDIR(os.stat(name, dir_fd=folder).st_mode)\n",
        OF_FILES,
    ),
    Bug(
        FILES,
        "subfolders include links",
        "if entry.is_dir(follow_symlinks=False)]",
        "if entry.is_dir()]",
        OF_FILES,
    ),
    Bug(
        FILES,
        "a link counts as a file",
        "            found = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)\n",
        "            found = os.stat(os.path.basename(path), dir_fd=folder)\n",
        OF_FILES,
    ),
    Bug(FILES, "a lock is awaited for ever", "if time.monotonic() >= end:", "if False:", OF_FILES),
    Bug(FILES, "a folder of a run is open to others", "PRIVATE = 0o700", "PRIVATE = 0o777", OF_FILES),
    Bug(
        FILES,
        "a file that is placed replaces another",
        "        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)\n",
        "        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)\n",
        OF_FILES,
    ),
    # -- programs that the engine calls
    Bug(
        TOOLS,
        "a relative entry of PATH is searched",
        "if os.path.isabs(entry) and not _is_inside(entry, project)",
        "if not _is_inside(entry, project)",
        OF_TOOLS,
    ),
    Bug(
        TOOLS,
        "a program in the project is used",
        "if os.path.isabs(entry) and not _is_inside(entry, project)",
        "if os.path.isabs(entry)",
        (*OF_TOOLS, "tests/security/test_engine_tools.py"),
    ),
    Bug(
        TOOLS,
        "a link to a program in the project is used",
        "if place and not _is_inside(place, project)",
        "if place",
        (*OF_TOOLS, "tests/security/test_engine_tools.py"),
    ),
    # -- runs that were started here
    Bug(PROOF, "any log counts as started here", "and self._is_same_file(known):", "and True:", OF_PROOF),
    Bug(
        PROOF,
        "a replaced log counts as restored",
        '"restored" if is_same else "replaced"',
        '"restored"',
        OF_PROOF,
    ),
    Bug(PROOF, "a copy counts as moved", '"moved" if is_moved else "copied"', '"moved"', OF_PROOF),
    Bug(
        PROOF,
        "a log with more events than were written here counts as the same",
        "return kept is not None and _intact_head(event_log) == kept",
        "return kept is not None and _holds(kept, event_log)",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "a damaged log counts as intact",
        "return None if reader.damage else reader.head",
        "return reader.head",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "the original's folder is not looked at",
        "is_moved = not self._is_at(proof.run_dir) and _ends_at(head, event_log)",
        "is_moved = _ends_at(head, event_log)",
        OF_PROOF,
    ),
    Bug(
        STATE_FOLDER,
        "proofs are kept inside the project",
        "if os.path.commonpath([os.path.realpath(self.root), project]) == project:",
        "if False:",
        OF_PROOF,
    ),
    Bug(
        STATE_FOLDER,
        "a relative state folder is used",
        "        if not os.path.isabs(home):\n",
        "        if False:\n",
        OF_PROOF,
    ),
    Bug(
        TRUST,
        "a run of a repository is resumed without a question",
        "            case _:\n                raise self._untrusted(session, origin)\n",
        "            case _:\n                return\n",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "a run of a repository counts as started here",
        'or self._origin(session, run_id).kind == "here"',
        "or True",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "trust is forgotten",
        "        if run_id:\n            self._proof(session).store(run_id)\n",
        "",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "no proof is stored",
        "        self._trusted.add(run_id)\n        self._proof(session).store(run_id)\n",
        "        self._trusted.add(run_id)\n",
        OF_TRUST,
    ),
    # -- where keys are sent
    Bug(
        HOSTS,
        "a key is sent to any host",
        "if host in MAKERS or host in _allowed(environ):",
        "if True:",
        OF_HOSTS,
    ),
    Bug(HOSTS, "a key is sent unencrypted", '    if scheme == "http":\n', "    if False:\n", OF_HOSTS),
    Bug(
        HOSTS,
        "an address that readers understand differently is accepted",
        "found = _ADDRESS.fullmatch(address)",
        "found = _ADDRESS.match(address)",
        OF_HOSTS,
    ),
    Bug(HOSTS, "hosts with a final dot are others", '.strip("[]").rstrip(".")', '.strip("[]")', OF_HOSTS),
    Bug(HOSTS, "hosts are compared with their case", "found[2].lower()", "found[2]", OF_HOSTS),
    Bug(
        HOSTS,
        "any name counts as this machine",
        'host == "localhost" or',
        'host.startswith("localhost") or',
        OF_HOSTS,
    ),
    Bug(
        HOSTS,
        "an address in the user's environment allows nothing",
        "    return named | set(",
        "    return set(",
        OF_HOSTS,
    ),
    # -- names and text
    Bug(NAMES, "another case of a protected name passes", "plain).casefold())", "plain).upper())", OF_NAMES),
    Bug(
        NAMES,
        "an invisible character hides a protected name",
        'if unicodedata.category(letter) != "Cf"',
        "",
        OF_NAMES,
    ),
    Bug(
        NAMES,
        "a compatibility form hides a protected name",
        '"NFKC", unicodedata.normalize("NFKD", plain)',
        '"NFC", unicodedata.normalize("NFD", plain)',
        OF_NAMES,
    ),
    Bug(NAMES, "a dot at the end hides a protected name", '.rstrip(". ")', "", OF_NAMES),
    Bug(
        NAMES,
        "a protected name is found only at the beginning",
        'for step in folded(path).split("/") if',
        'for step in folded(path).split("/")[:1] if',
        OF_NAMES,
    ),
    Bug(
        CHARACTERS,
        "an escape character passes",
        "[\\x00-\\x1f\\x7f-\\x9f",
        "[\\x00-\\x1a\\x7f-\\x9f",
        OF_CHARACTERS,
    ),
    Bug(CHARACTERS, "C1 controls pass", "\\x7f-\\x9f", "\\x7f", OF_CHARACTERS),
    Bug(CHARACTERS, "direction overrides pass", "\\u202a-\\u202e", "", OF_CHARACTERS),
    Bug(
        CHARACTERS,
        "line separators pass",
        '    "\\u2028\\u2029"  # Line and paragraph separators.\n',
        "",
        OF_CHARACTERS,
    ),
    # -- a log that was moved or replaced
    Bug(
        DISPLACEMENT,
        "a restored log overwrites the file that is there",
        "                files.link(draft, self._path)\n",
        "                files.rename(draft, self._path)\n",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "the name of a restored log isn't durable",
        "        self._disk.sync_directory(folder)\n        return True\n",
        "        return True\n",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "another file counts as a copy of the log",
        " or not self._begins_with(lease.fd, size):",
        ":",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "the file of another engine is completed",
        "not lease.take_now() or",
        "",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "a moved log is written again",
        "if target := self._moved_to():",
        'if target := "":',
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "a saved log replaces an earlier one",
        'files.free_name(f"{self._path}.replaced-{self._length}")\n',
        'f"{self._path}.replaced-{self._length}"\n        files.remove(saved)\n',
        OF_DISPLACEMENT,
    ),
)

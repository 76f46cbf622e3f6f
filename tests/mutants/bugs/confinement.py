"""Bugs in what keeps repositories, run folders and agents from being trusted: links, limits, the proof of a
run, protected names, hosts of keys, control characters, a displaced log, settings."""

from tests.mutants.mutation import Mutation as Bug

FILES = "agentforge.system.files"
FOLDERS = "agentforge.system.folders"
CONFINED = "agentforge.system.confined"
OPENAT2 = "agentforge.system.linux"
TOOLS = "agentforge.system.tools"
PROOF = "agentforge.runtime.run_proof"
STATE_FOLDER = "agentforge.runtime.state_folder"
TRUST = "agentforge.app.runs.trust"
HOSTS = "agentforge.model.secrets"
NAMES = "agentforge.model.names"
CHARACTERS = "agentforge.model.names"
SETTINGS = "agentforge.definition.settings"
ADDRESSES = "agentforge.adapters.cli_agents.addresses"
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
OF_SETTINGS = ("tests/definition/test_settings.py",)
OF_LOCAL_RUNS = ("tests/sdk/test_local_network.py",)
OF_ADDRESSES = ("tests/adapters/test_local_endpoints.py",)
OF_DISPLACEMENT = ("tests/adapters/test_displaced_log.py",)

BUGS = (
    # -- links and other files than regular ones
    Bug(OPENAT2, "the system call follows links", "", "_NO_LINKS = 4", "_NO_LINKS = 0", OF_FOLDERS),
    Bug(
        FOLDERS,
        "links are followed for ever",
        "Walk._target",
        "self._links > MAX_LINKS",
        "False",
        OF_CONFINED,
    ),
    Bug(
        FOLDERS,
        "a folder beside the workspace counts as inside",
        "Walk._target",
        "self._root_path.rstrip('/') + '/'",
        "self._root_path",
        OF_CONFINED,
    ),
    Bug(
        FOLDERS,
        "an absolute link is resolved from where it is",
        "Walk._target",
        "while self._names:\n    self._back()",
        "pass",
        OF_CONFINED,
    ),
    Bug(
        FOLDERS,
        "folders are made without asking",
        "Walk._enter",
        "make('/'.join((*self._names, name)))",
        "pass",
        ("tests/adapters/test_api_workspace_protected.py", *OF_CONFINED),
    ),
    Bug(
        FOLDERS,
        "another owner's draft is removed",
        "drafted",
        "found[2].startswith(owner)",
        "True",
        OF_CONFINED,
    ),
    Bug(
        CONFINED,
        "an absolute path beside the workspace counts as inside",
        "ConfinedFolder._relative",
        "root.rstrip('/') + '/'",
        "root",
        OF_CONFINED,
    ),
    Bug(
        CONFINED,
        "more is read than was asked for",
        "ConfinedFolder.read",
        "limit - len(content)",
        "1 << 16",
        OF_CONFINED,
    ),
    Bug(
        CONFINED,
        "a file is written without asking",
        "ConfinedFolder.write",
        "check(resolved.path)",
        "pass",
        ("tests/adapters/test_api_workspace_protected.py",),
    ),
    Bug(
        CONFINED,
        "a failed write leaves its draft",
        "ConfinedFolder.write",
        "with suppress(OSError):\n    os.unlink(draft, dir_fd=resolved.folder)",
        "pass",
        OF_CONFINED,
    ),
    Bug(FILES, "a folder in the way is an error", "_rename", "_aside(into, target)", "pass", OF_FILES),
    Bug(
        FILES,
        "a removed folder's links are followed",
        "_is_folder",
        "os.stat(name, dir_fd=folder, follow_symlinks=False)",
        "os.stat(name, dir_fd=folder)",
        OF_FILES,
    ),
    Bug(
        FILES,
        "subfolders include links",
        "subfolders",
        "entry.is_dir(follow_symlinks=False)",
        "entry.is_dir()",
        OF_FILES,
    ),
    Bug(
        FILES,
        "a link counts as a file",
        "about",
        "os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)",
        "os.stat(os.path.basename(path), dir_fd=folder)",
        OF_FILES,
    ),
    Bug(FILES, "a lock is awaited for ever", "_lock", "time.monotonic() >= end", "False", OF_FILES),
    Bug(FILES, "a folder of a run is open to others", "", "PRIVATE = 448", "PRIVATE = 511", OF_FILES),
    Bug(
        FILES,
        "a file that is placed replaces another",
        "_place",
        "os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)",
        "os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)",
        OF_FILES,
    ),
    # -- programs that the engine calls
    Bug(
        TOOLS,
        "a relative entry of PATH is searched",
        "resolve_tools",
        "os.path.isabs(entry) and (not _is_inside(entry, project))",
        "not _is_inside(entry, project)",
        OF_TOOLS,
    ),
    Bug(
        TOOLS,
        "a program in the project is used",
        "resolve_tools",
        "os.path.isabs(entry) and (not _is_inside(entry, project))",
        "os.path.isabs(entry)",
        (*OF_TOOLS, "tests/security/test_engine_tools.py"),
    ),
    Bug(
        TOOLS,
        "a link to a program in the project is used",
        "resolve_tools",
        "place and (not _is_inside(place, project))",
        "place",
        (*OF_TOOLS, "tests/security/test_engine_tools.py"),
    ),
    # -- runs that were started here
    Bug(
        PROOF,
        "any log counts as started here",
        "RunProof.origin",
        "self._is_same_file(known)",
        "True",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "a replaced log counts as restored",
        "RunProof.origin",
        "'restored' if is_same else 'replaced'",
        "'restored'",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "a copy counts as moved",
        "RunProof._elsewhere",
        "'moved' if is_moved else 'copied'",
        "'moved'",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "a log with more events than were written here counts as the same",
        "_ends_at",
        "_intact_head(event_log) == kept",
        "_holds(kept, event_log)",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "a damaged log counts as intact",
        "_intact_head",
        "None if reader.damage else reader.head",
        "reader.head",
        OF_PROOF,
    ),
    Bug(
        PROOF,
        "the original's folder is not looked at",
        "RunProof._elsewhere",
        "not is_there and _ends_at(head, event_log)",
        "_ends_at(head, event_log)",
        OF_PROOF,
    ),
    Bug(
        STATE_FOLDER,
        "proofs are kept inside the project",
        "StateFolder._problem",
        "os.path.commonpath([os.path.realpath(self.root), project]) == project",
        "False",
        OF_PROOF,
    ),
    Bug(
        STATE_FOLDER,
        "a relative state folder is used",
        "StateFolder._problem",
        "not os.path.isabs(home)",
        "False",
        OF_PROOF,
    ),
    Bug(
        TRUST,
        "a run of a repository is resumed without a question",
        "Trust.refuse_untrusted",
        "raise self._untrusted(session, origin)",
        "return",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "a run of a repository counts as started here",
        "Trust.is_own",
        "self._origin(session, run_id).kind == 'here'",
        "True",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "trust is forgotten",
        "Trust.allow",
        "if run_id:\n    self._proof(session).store(run_id)",
        "pass",
        OF_TRUST,
    ),
    Bug(
        TRUST,
        "no proof is stored",
        "Trust.started",
        "self._proof(session).store(run_id)",
        "pass",
        OF_TRUST,
    ),
    # -- where keys are sent
    Bug(
        HOSTS,
        "a key is sent to any host",
        "host_problem",
        "host in MAKERS or host in _allowed(environ)",
        "True",
        OF_HOSTS,
    ),
    Bug(HOSTS, "a key is sent unencrypted", "host_problem", "scheme == 'http'", "False", OF_HOSTS),
    Bug(
        HOSTS,
        "an address that readers understand differently is accepted",
        "plain_address",
        "_ADDRESS.fullmatch",
        "_ADDRESS.match",
        OF_HOSTS,
    ),
    Bug(
        HOSTS,
        "hosts with a final dot are others",
        "plain_address",
        "found[2].lower().strip('[]').rstrip('.')",
        "found[2].lower().strip('[]')",
        OF_HOSTS,
    ),
    Bug(
        HOSTS, "hosts are compared with their case", "plain_address", "found[2].lower()", "found[2]", OF_HOSTS
    ),
    Bug(
        HOSTS,
        "any name counts as this machine",
        "host_problem",
        "host == 'localhost'",
        "host.startswith('localhost')",
        OF_HOSTS,
    ),
    Bug(
        HOSTS,
        "an address in the user's environment allows nothing",
        "_allowed",
        "named | set(re.split('[\\\\s,]+', environ.get(KEY_HOSTS, '').lower().strip()))",
        "set(re.split('[\\\\s,]+', environ.get(KEY_HOSTS, '').lower().strip()))",
        OF_HOSTS,
    ),
    # -- names and text
    Bug(
        NAMES,
        "another case of a protected name passes",
        "folded",
        "unicodedata.normalize('NFKD', plain).casefold",
        "unicodedata.normalize('NFKD', plain).upper",
        OF_NAMES,
    ),
    Bug(
        NAMES,
        "an invisible character hides a protected name",
        "folded",
        "(letter for letter in path if unicodedata.category(letter) != 'Cf')",
        "(letter for letter in path)",
        OF_NAMES,
    ),
    Bug(
        NAMES,
        "a compatibility form hides a protected name",
        "folded",
        "unicodedata.normalize('NFKC', unicodedata.normalize('NFKD', plain).casefold())",
        "unicodedata.normalize('NFC', unicodedata.normalize('NFD', plain).casefold())",
        OF_NAMES,
    ),
    Bug(
        NAMES,
        "a dot at the end hides a protected name",
        "folded",
        "step.partition(':')[0].rstrip('. ')",
        "step.partition(':')[0]",
        OF_NAMES,
    ),
    Bug(
        NAMES,
        "a protected name is found only at the beginning",
        "protected_step",
        "folded(path).split('/')",
        "folded(path).split('/')[:1]",
        OF_NAMES,
    ),
    Bug(
        CHARACTERS,
        "an escape character passes",
        "",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        "'[\\x00-\\x1a\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        OF_CHARACTERS,
    ),
    Bug(
        CHARACTERS,
        "C1 controls pass",
        "",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        "'[\\x00-\\x1f\\x7f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        OF_CHARACTERS,
    ),
    Bug(
        CHARACTERS,
        "direction overrides pass",
        "",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        OF_CHARACTERS,
    ),
    Bug(
        CHARACTERS,
        "line separators pass",
        "",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        "'[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]'",
        OF_CHARACTERS,
    ),
    # -- a log that was moved or replaced
    Bug(
        DISPLACEMENT,
        "a restored log overwrites the file that is there",
        "DisplacedLog._restore",
        "files.link",
        "files.rename",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "the name of a restored log isn't durable",
        "DisplacedLog._restore",
        "self._disk.sync_directory(folder)",
        "pass",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "a moved log is written again",
        "DisplacedLog.settle",
        "self._moved_to()",
        "''",
        OF_DISPLACEMENT,
    ),
    Bug(
        DISPLACEMENT,
        "a saved log replaces an earlier one",
        "DisplacedLog._replaced",
        "saved = files.free_name(f'{self._path}.replaced-{self._length}')",
        "saved = f'{self._path}.replaced-{self._length}'\nfiles.remove(saved)",
        OF_DISPLACEMENT,
    ),
    # -- what a repository says
    Bug(SETTINGS, "a project adds writable paths", "is_as_strict", "writable <= may", "True", OF_SETTINGS),
    Bug(SETTINGS, "a project shows hidden paths", "is_as_strict", "hidden >= must", "True", OF_SETTINGS),
    Bug(
        SETTINGS,
        "variables are expanded without a limit",
        "_Reader._with_values",
        "self._added > MAX_SOURCE_BYTES",
        "False",
        OF_SETTINGS,
    ),
    Bug(
        "agentforge.app.settings_files",
        "a variable allows the network again that settings refuse",
        "SettingsFiles.show",
        "name and not (key == 'network' and settings.is_local)",
        "name",
        ("tests/sdk/test_settings_files.py",),
    ),
    Bug(
        "agentforge.app.providers.local_network",
        "a run that was compiled before calls what the user's settings refuse",
        "refuse_any_network",
        "plan.is_local or not is_local_user(sources)",
        "True",
        OF_LOCAL_RUNS,
    ),
    Bug(
        "agentforge.definition.local_network",
        "hooks that need the network are called in a local run",
        "_without_hooks",
        "not hook.network",
        "True",
        OF_LOCAL_RUNS,
    ),
    Bug(
        ADDRESSES,
        "a table on the command line names the server",
        "_codex",
        "any(isinstance(one, dict) for one in given.values())",
        "False",
        OF_ADDRESSES,
    ),
    Bug(
        ADDRESSES,
        "an option with its value is overlooked",
        "_has_option",
        "argument.partition('=')[0] == option",
        "argument == option",
        OF_ADDRESSES,
    ),
)

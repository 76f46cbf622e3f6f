"""The remote repository of a delivery: pushes a branch, and opens a pull request with GitHub's `gh`.

Agents can write to the settings of the user's repository. So git pushes from an empty repository of the
engine's own, to the address that the remote had when the run started; `gh` is told the repository by the same
address, and runs in that empty folder.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from agentforge.adapters.host.git_repository import BRANCHES, GitRepository
from agentforge.model.delivery import PreparedDelivery
from agentforge.ports.repository import Done, NotDelivered, Outcome
from agentforge.system import files
from agentforge.system.git import remote_program
from agentforge.system.programs import NoExit, Program, ProgramResult, run
from agentforge.system.tools import find_tool, tool_environment, why_refused

SECONDS = 300.0
MAX_OUTPUT = 1024 * 1024
DEFAULT = "origin"
_ADDRESS = re.compile(r"(https?|ssh|git|file)://[^\s]+|/[^\0\n]+|[\w.-]+(@[\w.-]+)?:(?!:)[^\s]+", re.ASCII)
"""Those of git's own transports, by which no address names a program."""
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_URL = re.compile(r"https?://[^\s]+")


def shown_address(address: str) -> str:
    """Without a name or a password in it."""
    return _PASSWORD.sub("", address)


def remote_of(repository: GitRepository, ref: str) -> tuple[str, str]:
    """The remote repository of a branch, and its address; empty without one."""
    name = repository.setting(f"branch.{ref.removeprefix(BRANCHES)}.remote") or DEFAULT
    address = repository.setting(f"remote.{name}.pushurl") or repository.setting(f"remote.{name}.url")
    return (name, address) if address else ("", "")


class _Found(msgspec.Struct):
    url: str = ""


class GitRemote:
    def __init__(self, project: str, repository: GitRepository, environ: Mapping[str, str]) -> None:
        self._project = project
        self._repository = repository
        self._environ = environ

    # -- git

    def pushed(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> str:
        """The commit that the remote branch has; empty without one, or if the remote doesn't answer."""
        with self._own() as folder:
            ended = self._git(folder, mark, "ls-remote", "--", self._address(prepared), prepared.ref)
        return ended.output.partition("\t")[0] if ended.code == 0 else ""

    def push(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> Outcome:
        address = self._address(prepared)
        if not address:
            return NotDelivered("the repository has no remote: add one with `git remote add origin ADDRESS`")
        if not _ADDRESS.fullmatch(address):
            return NotDelivered(f"{address!r} is not an address that the engine pushes to")
        if self.pushed(prepared, mark) == prepared.commit:
            return Done(found=True)
        what = f"{prepared.commit}:{prepared.ref}"
        with self._own() as folder:
            # The branch must not exist there.
            lease = f"--force-with-lease={prepared.ref}:"
            ended = self._git(folder, mark, "push", "--porcelain", "--no-verify", lease, "--", address, what)
        if ended.code == 0 or self.pushed(prepared, mark) == prepared.commit:
            return Done()
        why = _last(ended.output) if "rejected" in ended.output else ended.last_error
        return NotDelivered(f"git push to {shown_address(address)}: {why or ended.problem}")

    def _address(self, prepared: PreparedDelivery) -> str:
        # Without one when the run was prepared, the user may have added it since.
        return prepared.address or remote_of(self._repository, f"{BRANCHES}{prepared.base_branch}")[1]

    def _git(self, folder: str, mark: Mapping[str, str], *arguments: str) -> ProgramResult:
        objects = f"{self._repository.common_folder()}/objects"
        return run(
            remote_program(
                self._project,
                folder,
                objects,
                self._environ,
                *arguments,
                timeout=SECONDS,
                max_output=MAX_OUTPUT,
                mark=mark,
            )
        )

    @contextmanager
    def _own(self) -> Iterator[str]:
        """An empty repository; of the user's, it knows where a shallow history ends."""
        with tempfile.TemporaryDirectory(prefix="agentforge-push-") as folder:
            for name in ("objects", "refs"):
                files.make_dir(f"{folder}/{name}")
            files.write(f"{folder}/HEAD", b"ref: refs/heads/none\n")
            is_256 = len(self._repository.here().head) == 64
            version = "1\n[extensions]\nobjectFormat = sha256" if is_256 else "0"
            files.write(
                f"{folder}/config", f"[core]\nbare = true\nrepositoryFormatVersion = {version}\n".encode()
            )
            shallow = files.read_usable(f"{self._repository.common_folder()}/shallow")
            if shallow is not None:
                files.write(f"{folder}/shallow", shallow)
            yield folder

    # -- gh

    def pull_request(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> str | NotDelivered:
        """The address of the one for the branch; empty without one."""
        branch = prepared.ref.removeprefix(BRANCHES)
        words = ("list", "--head", branch, "--state", "open", "--json", "url", "--limit", "1")
        ended = self._gh(prepared, mark, *words)
        if isinstance(ended, NotDelivered):
            return ended
        try:
            found = msgspec.json.decode(ended.stdout, type=list[_Found])
        except (msgspec.MsgspecError, ValueError):
            return NotDelivered("gh pr list answered something else than a list")
        return found[0].url if found else ""

    def open(self, prepared: PreparedDelivery, body: str, mark: Mapping[str, str]) -> Outcome:
        known = self.pull_request(prepared, mark)
        if isinstance(known, NotDelivered):
            return known
        if known:
            return Done(known, found=True)
        branch = prepared.ref.removeprefix(BRANCHES)
        words = ("create", "--head", branch, "--base", prepared.base_branch, "--title", prepared.title)
        ended = self._gh(prepared, mark, *words, "--body-file", "-", stdin=body.encode("utf-8", "replace"))
        if isinstance(ended, NotDelivered):
            return ended
        urls = _URL.findall(ended.output)
        if not urls:
            return NotDelivered("gh pr create named no pull request")
        return Done(urls[-1])

    def _gh(
        self, prepared: PreparedDelivery, mark: Mapping[str, str], *words: str, stdin: bytes = b""
    ) -> ProgramResult | NotDelivered:
        program = find_tool("gh", self._environ, self._project)
        if program is None:
            why = why_refused("gh", self._environ, self._project)
            return NotDelivered(f"gh is not installed: install it, and log in with `gh auth login`{why}")
        where = ("--repo", shown_address(self._address(prepared)))
        env = {**tool_environment(self._environ, self._project), "GH_PROMPT_DISABLED": "1", **mark}
        with self._own() as folder:
            ended = run(
                Program(
                    (program, "pr", *words, *where),
                    SECONDS,
                    cwd=folder,
                    env=env,
                    max_output=MAX_OUTPUT,
                    contained=True,
                    stdin=stdin,
                )
            )
        if ended.code == 0:
            return ended
        if ended.reason is NoExit.MISSING:
            return NotDelivered("gh is not installed: install it, and log in with `gh auth login`")
        return NotDelivered(f"gh pr {words[0]}: {ended.last_error or ended.problem or 'it failed'}")


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if "rejected" in line]
    return " ".join(lines[-1].split()) if lines else ""

"""Bugs in how events become durable lines, and how lines become events again."""

from tests.mutants.mutation import Mutation as Bug

WRITER = "agentforge.adapters.log.writer"
READER = "agentforge.adapters.log.reader"
SCAN = "agentforge.adapters.log.scan"
FILE = "agentforge.adapters.log.file"
LOG = "agentforge.adapters.log.log"
LEASE = "agentforge.adapters.log.lease"
DISK = "agentforge.system.disk"
CODEC = "agentforge.model.codec"

BUGS = (
    Bug(
        WRITER,
        "close doesn't wait for the disk",
        "                if not self._store.failure:\n                    self._commit(wait=True)",
        "                if not self._store.failure:\n                    self._commit(wait=False)",
    ),
    Bug(
        WRITER,
        "sync doesn't wait for the disk",
        "            self._check_usable()\n            self._commit(wait=True)",
        "            self._check_usable()\n            self._commit(wait=False)",
    ),
    Bug(WRITER, "close doesn't write what is buffered", "if not self._store.failure:", "if False:"),
    Bug(
        WRITER,
        "close keeps the lease",
        "            finally:\n                self._store.close()",
        "            finally:\n                pass",
    ),
    Bug(
        WRITER,
        "a gap in the numbers is accepted",
        "if event.seq != self._seq + 1:",
        "if event.seq <= self._seq:",
    ),
    Bug(
        WRITER,
        "the buffer grows without bound",
        "if len(self._pending) >= self._buffering.events:",
        "if False:",
    ),
    Bug(
        WRITER,
        "what failed to be written is forgotten",
        '            self._store.write(b"\\n".join(pending) + b"\\n")\n            self._pending = []\n',
        '            self._pending = []\n            self._store.write(b"\\n".join(pending) + b"\\n")\n',
    ),
    Bug(
        WRITER,
        "a torn line is cut off before it is kept",
        "            self.repaired = TornTail(scan.torn_bytes, store.save_tail(scan.length))\n"
        "            store.cut(scan.length)\n",
        "            store.cut(scan.length)\n"
        "            self.repaired = TornTail(scan.torn_bytes, store.save_tail(scan.length))\n",
    ),
    Bug(
        WRITER,
        "a whole last line without its newline is dropped",
        "if scan.lacks_only_newline():",
        "if False:",
    ),
    Bug(
        WRITER,
        "damaged lines are played back",
        "                if number in damaged:\n",
        "                if False:\n",
    ),
    Bug(
        WRITER,
        "a writer that is closed takes events",
        "        if self._closed:\n            raise Invalid",
        "        if False:\n            raise Invalid",
    ),
    Bug(
        WRITER,
        "a writer whose disk failed takes events",
        "    def _check_usable(self) -> None:\n        if self._store.failure:",
        "    def _check_usable(self) -> None:\n        if False:",
    ),
    Bug(
        READER,
        "a shortened log passes for the one that was read",
        "if head.length > snapshot.length or not continues(tail, head):",
        "if not continues(tail, head):",
    ),
    Bug(
        READER,
        "a replaced log passes for the one that was read",
        "if head.length > snapshot.length or not continues(tail, head):",
        "if head.length > snapshot.length:",
    ),
    Bug(
        SCAN,
        "a log whose line goes on passes for the one that was read",
        '    return tail[-1:] == b"\\n" and codec.hash_of(tail[:-1]) in',
        "    return codec.hash_of(tail[:-1]) in",
    ),
    Bug(
        SCAN,
        "a payload that is missing isn't damage",
        "codec.names_payload(line) and (reason",
        "False and (reason",
    ),
    Bug(
        SCAN,
        "the line after a damaged one is damaged too",
        "digest or (self._open and (digest := self._follows(line)))",
        "digest",
    ),
    Bug(SCAN, "a long line is read into memory", "if len(self.rest) > codec.MAX_LINE_BYTES:", "if False:"),
    Bug(
        FILE,
        "what an earlier owner only wrote counts as durable",
        "        self._synced = -1\n",
        "        self._synced = self.length\n",
    ),
    Bug(
        FILE,
        "a sync that failed is tried again",
        'raise self._fail("make the log durable", error) from error',
        'raise storage_failed("x", error) from error',
    ),
    Bug(FILE, "a short write is ignored", "        if written != len(data):\n", "        if False:\n"),
    Bug(
        FILE,
        "half a line stays after a failed write",
        "        except OSError:\n            self._undo_partial_write()\n            raise\n",
        "        except OSError:\n            raise\n",
    ),
    Bug(
        FILE,
        "half a line stays after a short write",
        "            self._undo_partial_write()\n            # A short",
        "            # A short",
    ),
    Bug(
        FILE,
        "what somebody else wrote is overlooked",
        "        if size != self.length:\n",
        "        if False:\n",
    ),
    Bug(
        FILE,
        "a sync counts for what is written after it",
        "        self._synced = self.length\n\n    def save_tail",
        "        self._synced = self.length + 1\n\n    def save_tail",
    ),
    Bug(
        FILE,
        "a kept torn line's name isn't synced",
        "            self._disk.sync_directory(str(target.parent))\n",
        "",
    ),
    Bug(
        FILE,
        "the cut of a torn line isn't synced",
        "            self._disk.truncate(self._fd, length)\n            self._disk.sync(self._fd)\n",
        "            self._disk.truncate(self._fd, length)\n",
    ),
    Bug(
        FILE, "a kept torn line is overwritten", "        while target.exists():\n", "        while False:\n"
    ),
    Bug(
        FILE,
        "a payload's content isn't compared",
        "    if payload_of(data) != payload:\n",
        "    if False:\n",
    ),
    Bug(FILE, "a payload's name may be any path", "if not _NAME.fullmatch(payload.sha256):", "if False:"),
    Bug(
        LOG,
        "the name of a new log isn't synced",
        "            if file.length == 0:\n",
        "            if False:\n",
    ),
    Bug(
        LOG,
        "the lease of a log that was moved aside is taken",
        "                if self._is_current(fd):\n",
        "                if True:\n",
    ),
    Bug(LOG, "a log on a network's disk is accepted", "        self._check_local()\n", ""),
    Bug(
        LEASE,
        "two probes at once take each other for an owner",
        "return not _try_lock(fd, fcntl.LOCK_SH)",
        "return not _try_lock(fd, fcntl.LOCK_EX)",
    ),
    Bug(
        LEASE,
        "a probe's instant is taken for an owner",
        "        if _try_lock(fd, fcntl.LOCK_EX):\n            return True\n        sleep",
        "        return _try_lock(fd, fcntl.LOCK_EX)\n        sleep",
    ),
    Bug(
        DISK,
        "a file isn't synced before its name is",
        "            self.sync(fd)\n        finally",
        "            pass\n        finally",
    ),
    Bug(
        DISK,
        "a replaced file's name isn't synced",
        "        self.sync_directory(os.path.dirname(path))\n",
        "",
    ),
    Bug(DISK, "a new folder's name isn't synced", "        self.sync_directory(parent)\n", ""),
    Bug(
        DISK,
        "a short write of a file is ignored",
        "                while left:\n                    left = left[self.write(fd, left) :]\n",
        "                self.write(fd, left)\n",
    ),
    Bug(
        DISK,
        "a draft stays after a failed write",
        "                os.unlink(draft)\n",
        "                pass\n",
    ),
    Bug(DISK, "a refusal that won't pass is tried again", "if error.errno not in _TRANSIENT:", "if False:"),
    Bug(
        CODEC,
        "a line's hash doesn't depend on the one before",
        "sha256(previous.encode() + body)",
        "sha256(body)",
    ),
    Bug(CODEC, "an unknown event counts as damage", "    if envelope.type in FACTS:\n", "    if True:\n"),
    Bug(
        CODEC,
        "an edited line passes",
        'return digest if line[-SUFFIX_BYTES:] == b\',"hash":"%b"}\' % digest.encode() else ""',
        "return digest",
    ),
)

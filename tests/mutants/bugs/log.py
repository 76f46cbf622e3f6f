"""Bugs in writing events durably and in reading them back."""

from tests.mutants.mutation import Mutation as Bug

WRITER = "agentforge.adapters.log.writer"
READER = "agentforge.adapters.log.reader"
SCAN = "agentforge.adapters.log.scan"
FILE = "agentforge.adapters.log.jsonl_file"
LOG = "agentforge.adapters.log.jsonl_log"
LEASE = "agentforge.adapters.log.lease"
AHEAD = "agentforge.adapters.log.write_ahead"
DISPLACEMENT = "agentforge.adapters.log.displacement"
DISK = "agentforge.system.disk"
CODEC = "agentforge.model.codec"

ORDER = ("tests/order/test_recorded_runs.py",)
DISPLACED = ("tests/adapters/test_displaced_log.py",)

BUGS = (
    Bug(
        FILE,
        "a payload isn't synced before the line that names it",
        "        self._disk.replace(self._path(payload), data)\n",
        "        files.replace(self._path(payload), data)\n",
        ORDER,
    ),
    Bug(
        FILE,
        "a restored log isn't synced before its write-ahead file is removed",
        "            self._disk.write_at(fd, data, position)\n            self._disk.sync(fd)\n",
        "            self._disk.write_at(fd, data, position)\n",
    ),
    Bug(
        AHEAD,
        "a write-ahead file that is slower is used further",
        "COMPARED and not self._is_faster()",
        "COMPARED and not self._seconds",
    ),
    Bug(
        AHEAD,
        "one slow sync decides against the write-ahead file",
        "_median(self._seconds) <= _median(self._log_seconds)",
        "max(self._seconds) <= max(self._log_seconds)",
    ),
    Bug(
        AHEAD,
        "the write-ahead file is compared with syncs of another time",
        "        return len(self._log_seconds) // TURN >= len(self._seconds) // TURN\n",
        "        return len(self._log_seconds) == COMPARED or len(self._seconds) < COMPARED\n",
    ),
    Bug(
        AHEAD,
        "the write-ahead file isn't synced",
        "            self._disk.write_at(self._fd, record, self._used)\n            self._disk.sync(self._fd)\n",
        "            self._disk.write_at(self._fd, record, self._used)\n",
    ),
    Bug(
        AHEAD,
        "the name of the write-ahead file isn't synced",
        "            self._disk.sync_directory(os.path.dirname(self.path))\n",
        "",
    ),
    Bug(
        FILE,
        "a full write-ahead file is overwritten before the log is synced",
        "            self._sync_log()\n            self._ahead.restart(",
        "            if not self._ahead.is_created:\n                self._sync_log()\n"
        "            self._ahead.restart(",
    ),
    Bug(
        FILE,
        "the write-ahead file is removed before the log is synced",
        "                self._sync_log()\n                self._ahead.remove()\n",
        "                self._ahead.remove()\n",
    ),
    Bug(
        AHEAD,
        "records of an earlier round are taken for later ones",
        "if not size or len(data) < size or position != start + len(found) or checksum != claimed:",
        "if not size or len(data) < size:",
    ),
    Bug(
        AHEAD,
        "the write-ahead file of another log is used",
        "found, at, checksum = bytearray(), 0, crc32(end)",
        "found, at, checksum = bytearray(), 0, HEADER.unpack_from(content)[2] if content else 0",
    ),
    Bug(
        AHEAD,
        "a write-ahead file that was removed is used further",
        "            self._check_place()\n            self._disk.write_at(",
        "            self._disk.write_at(",
    ),
    Bug(
        AHEAD,
        "an error of the write-ahead file counts as a sync",
        "            self.close()\n            return False\n",
        "            self.close()\n            return True\n",
    ),
    Bug(
        FILE,
        "the log isn't restored from its write-ahead file",
        "            self._overwrite(position, data)\n",
        "            pass\n",
    ),
    Bug(
        FILE,
        "the write-ahead file is removed although the log failed",
        "if self._ahead.is_created and not self.failure and self._synced == self.length:\n",
        "if self._ahead.is_created:\n",
    ),
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
    Bug(WRITER, "close doesn't write buffered events", "if not self._store.failure:", "if False:"),
    Bug(
        WRITER,
        "close doesn't release the lease",
        "            finally:\n                self._store.close()",
        "            finally:\n                pass",
    ),
    Bug(
        WRITER,
        "a gap in the sequence numbers is accepted",
        "if event.seq != head.seq + 1:",
        "if event.seq <= head.seq:",
    ),
    Bug(
        WRITER,
        "the buffer grows without limit",
        "if len(self._pending) >= self._buffering.events:",
        "if False:",
    ),
    Bug(
        WRITER,
        "events that couldn't be written are dropped",
        '            self._store.write(b"\\n".join(pending) + b"\\n")\n            self._pending = []\n',
        '            self._pending = []\n            self._store.write(b"\\n".join(pending) + b"\\n")\n',
    ),
    Bug(
        WRITER,
        "a torn line is cut off before it is saved",
        "            self.repaired = TornTail(scan.torn_bytes, store.save_tail(scan.length))\n"
        "            store.cut(scan.length)\n",
        "            store.cut(scan.length)\n"
        "            self.repaired = TornTail(scan.torn_bytes, store.save_tail(scan.length))\n",
    ),
    Bug(
        WRITER,
        "a complete last line without a newline is dropped",
        "if scan.lacks_only_newline():",
        "if False:",
    ),
    Bug(
        WRITER,
        "damaged lines are replayed",
        "                if number in damaged:\n",
        "                if False:\n",
    ),
    Bug(
        WRITER,
        "a closed writer accepts events",
        "        if self._closed:\n            raise Invalid",
        "        if False:\n            raise Invalid",
    ),
    Bug(
        WRITER,
        "a writer whose disk failed accepts events",
        "    def _check_usable(self) -> None:\n        if self._store.failure:",
        "    def _check_usable(self) -> None:\n        if False:",
    ),
    Bug(
        READER,
        "a shortened log is accepted as a continuation",
        "if head.length > snapshot.length or not continues(tail, head):",
        "if not continues(tail, head):",
    ),
    Bug(
        READER,
        "a replaced log is accepted as a continuation",
        "if head.length > snapshot.length or not continues(tail, head):",
        "if head.length > snapshot.length:",
    ),
    Bug(
        SCAN,
        "a log whose last line was extended is accepted as a continuation",
        '    return tail[-1:] == b"\\n" and codec.hash_of(tail[:-1]) in',
        "    return codec.hash_of(tail[:-1]) in",
    ),
    Bug(
        SCAN,
        "a missing payload isn't reported as damage",
        "codec.names_payload(line) and (reason",
        "False and (reason",
    ),
    Bug(
        SCAN,
        "the line after a damaged one is reported, too",
        "digest or (self._open and (digest := self._follows(line)))",
        "digest",
    ),
    Bug(SCAN, "a long line is read into memory", "if len(self.rest) > codec.MAX_LINE_BYTES:", "if False:"),
    Bug(
        FILE,
        "data that an earlier owner wrote without a sync counts as durable",
        "        self._synced = -1\n",
        "        self._synced = self.length\n",
    ),
    Bug(
        FILE,
        "a failed sync is retried",
        'raise self._fail("make the log durable", error) from error',
        'raise storage_failed("x", error) from error',
    ),
    Bug(FILE, "a short write is ignored", "        if written != len(data):\n", "        if False:\n"),
    Bug(
        FILE,
        "a partial line is left after a failed write",
        "        except OSError:\n            self._undo_partial_write()\n            raise\n",
        "        except OSError:\n            raise\n",
    ),
    Bug(
        FILE,
        "a partial line is left after a short write",
        "            self._undo_partial_write()\n            # A short",
        "            # A short",
    ),
    Bug(
        FILE,
        "writes of another process aren't detected",
        "found.st_size != self.length or ",
        "",
    ),
    Bug(
        FILE,
        "the write-ahead file gets lines that the log has already synced",
        "        self._unsynced.clear()\n",
        "",
    ),
    Bug(
        FILE,
        "a sync covers later writes",
        "        self._synced = self.length\n        self._unsynced.clear()\n",
        "        self._synced = self.length + 1\n        self._unsynced.clear()\n",
    ),
    Bug(
        FILE,
        "the name of a saved torn line isn't synced",
        "            self._disk.sync_directory(os.path.dirname(target))\n",
        "",
    ),
    Bug(
        FILE,
        "the truncation of a torn line isn't synced",
        "            self._disk.truncate(self._lease.fd, length)\n"
        "            self._disk.sync(self._lease.fd)\n",
        "            self._disk.truncate(self._lease.fd, length)\n",
    ),
    Bug(
        FILE,
        "a log that was changed in place is continued",
        " or self._last_bytes() != self._tail",
        "",
        DISPLACED,
    ),
    Bug(
        FILE,
        "the path of the log isn't checked",
        "        if found is None or (found.st_ino, found.st_dev) != self._inode:\n",
        "        if found is None:\n",
        DISPLACED,
    ),
    Bug(
        FILE,
        "the lease of a restored log is dropped at once",
        "            self._other_lease = displaced.lease\n",
        "            displaced.lease and displaced.lease.close()\n",
        DISPLACED,
    ),
    Bug(
        DISPLACEMENT,
        "another file is taken for a copy of the log",
        " or not self._begins_with(lease.fd, size)",
        "",
        DISPLACED,
    ),
    Bug(
        DISPLACEMENT,
        "a copy that another engine drives is changed",
        " or not lease.take_now()",
        "",
        DISPLACED,
    ),
    Bug(
        DISPLACEMENT,
        "a restored log isn't locked before it is visible",
        "            lease.take_now()\n            try",
        "            try",
        DISPLACED,
    ),
    Bug(
        DISPLACEMENT,
        "a link in the place of the log is followed",
        "        if not stat.S_ISREG(os.lstat(self._path).st_mode):\n            return False\n",
        "",
        DISPLACED,
    ),
    Bug(
        LEASE,
        "a forked process keeps the lease",
        "        lease.close()\n    _no_fork",
        "        pass\n    _no_fork",
        ("tests/sdk/test_forked_workers.py",),
    ),
    Bug(
        FILE,
        "a saved torn line is overwritten",
        'files.free_name(f"{self._path}.torn-{start}")\n',
        'f"{self._path}.torn-{start}"\n        files.remove(target)\n',
    ),
    Bug(
        FILE,
        "the content of a payload isn't verified",
        "    if payload_of(data) != payload:\n",
        "    if False:\n",
    ),
    Bug(FILE, "a payload name may be any path", "if not _NAME.fullmatch(payload.sha256):", "if False:"),
    Bug(
        LOG,
        "the name of a new log isn't synced",
        "                self._disk.sync_directory(self._directory)\n",
        "                pass\n",
    ),
    Bug(
        LOG,
        "the name of a log with events isn't synced",
        "                self._disk.sync_directory(self._directory)\n",
        "                if file.length == 0:\n                    self._disk.sync_directory(self._directory)\n",
    ),
    Bug(
        FILE,
        "the name of the folder of payloads isn't synced",
        "            self._disk.make_directories(self._directory)\n",
        "            files.make_dir(self._directory)\n",
    ),
    Bug(
        LOG,
        "the lease of an archived log is taken",
        "                if self._is_current(lease.fd):\n",
        "                if True:\n",
    ),
    Bug(LOG, "a log on a network file system is accepted", "        self._check_local()\n", ""),
    Bug(
        LEASE,
        "concurrent probes mistake each other for an owner",
        "return not _try_lock(fd, fcntl.LOCK_SH)",
        "return not _try_lock(fd, fcntl.LOCK_EX)",
    ),
    Bug(
        LEASE,
        "a short probe is mistaken for an owner",
        "            if self.take_now():\n                return True\n            sleep",
        "            return self.take_now()\n            sleep",
    ),
    Bug(
        DISK,
        "a file isn't synced before its name",
        "            self.sync(fd)\n        finally",
        "            pass\n        finally",
    ),
    Bug(
        DISK,
        "the name of a replaced file isn't synced",
        "            raise\n        self.sync_directory(folder)\n",
        "            raise\n",
    ),
    Bug(
        DISK,
        "a part of a record that is overwritten is enough",
        "        while data:\n            written = os.pwrite",
        "        if data:\n            written = os.pwrite",
        ("tests/system/test_disk.py",),
    ),
    Bug(
        DISPLACEMENT,
        "what a copy of the log lacked isn't synced",
        "chunks_of(self._fd, size, self._length))\n        self._disk.sync(lease.fd)\n",
        "chunks_of(self._fd, size, self._length))\n",
        DISPLACED,
    ),
    Bug(
        DISK,
        "the name of a folder that a killed process made isn't synced",
        "                self.sync_directory(parent)\n            return\n",
        "                pass\n            return\n",
        (
            "tests/order/test_recorded_runs.py::"
            "test_name_of_a_folder_is_synced_although_its_creator_was_killed",
            "tests/system/test_disk.py",
        ),
    ),
    Bug(
        DISK,
        "the name of a new folder isn't synced",
        "        self.make_directory(path, mode)\n        self.sync_directory(parent)\n",
        "        self.make_directory(path, mode)\n",
    ),
    Bug(
        DISK,
        "a short write of a file is ignored",
        "            while left:\n                left = left[self.write(fd, left) :]\n",
        "            self.write(fd, left)\n",
    ),
    Bug(
        DISK,
        "a temporary file is left after a failed write",
        "                files.remove(draft)\n",
        "                pass\n",
    ),
    Bug(DISK, "a permanent error is retried", "if error.errno not in _TRANSIENT:", "if False:"),
    Bug(
        CODEC,
        "the hash of a line doesn't include the previous one",
        "sha256(previous.encode() + body)",
        "sha256(body)",
    ),
    Bug(CODEC, "an unknown event counts as damage", "    if envelope.type in FACTS:\n", "    if True:\n"),
    Bug(
        CODEC,
        "an edited line is accepted",
        'return digest if line[-SUFFIX_BYTES:] == b\',"hash":"%b"}\' % digest.encode() else ""',
        "return digest",
    ),
)

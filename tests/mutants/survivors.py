"""Generated mutations that no test can catch: they change nothing that anybody can observe."""

ONE_CHOICE = "two entries for the same provider don't exist, so nothing after its position is compared"
SAME_PLACE = "what is compared or replaced there depends on the node, its visit and the branch only"
SHORTCUT = "a shortcut: without entries, the same follows"
EXCUSED = "an answer to any other question has reset both, and after this one the count is set to the other"
DESCRIPTOR = "any negative number is no descriptor, and 0 is the standard input of an engine"
SAME_SIZE = "both files have that many bytes, so their chunks are equally many"
ONE_CHUNK = "so few bytes are read as one chunk"
FIRST_SYNC = "the write-ahead file isn't made before many syncs of the log"
ONE_LINE = "a line of a log is longer than what is compared"
SAME_BYTES = "read from the file, they are the same bytes"
NO_BYTES = "the position of no bytes is not used"
SET_LATER = "set when the file is made, before it is used"
FALSE = "only whether there is one counts, and both are none"
FIRST = "only the first part is used, however many follow"
NO_NODE = "no node has that path, so none follows it, as without a path"

SURVIVORS: dict[str, dict[str, str]] = {
    "adapters.log.displacement.chunks_of": {
        "while start <= end:": "at the end nothing is left to read, which ends it as well",
    },
    "adapters.log.displacement.DisplacedLog._begins_with": {
        "pairs = zip(chunks_of(self._fd, 0, size), chunks_of(fd, 0, size), strict=True)": SAME_SIZE,
        "pairs = zip(chunks_of(self._fd, 0, size), chunks_of(fd, 0, size), )": SAME_SIZE,
    },
    "adapters.log.jsonl_file.JsonlFile.__init__": {
        **dict.fromkeys(("self._synced = +1", "self._synced = -2"), FIRST_SYNC),
    },
    "adapters.log.jsonl_file.JsonlFile._last_bytes": {
        "return os.pread(self._lease.fd, _TAIL_BYTES, begin if begin >= 0 else 0)": "0 is 0",
        "return os.pread(self._lease.fd, _TAIL_BYTES, begin if begin > 1 else 0)": ONE_LINE,
        "return os.pread(self._lease.fd, _TAIL_BYTES, begin if begin > 0 else 1)": ONE_LINE,
    },
    "adapters.log.jsonl_file.JsonlFile.sync": {
        "if self._synced > 0 and self._ahead.accepts(size) and "
        'self._ahead.sync(b"".join(self._unsynced)):': FIRST_SYNC,
        "if self._synced >= 1 and self._ahead.accepts(size) and "
        'self._ahead.sync(b"".join(self._unsynced)):': FIRST_SYNC,
    },
    "adapters.log.jsonl_file.JsonlFile.write": {
        "self._tail = data[-_TAIL_BYTES:] if (len(data) >= _TAIL_BYTES) and False else self._last_bytes()": (
            SAME_BYTES
        ),
        "self._tail = data[-_TAIL_BYTES:] if len(data) > _TAIL_BYTES else self._last_bytes()": SAME_BYTES,
    },
    "adapters.log.lease._is_remote": {
        'kind, _, program = mount.type.rpartition(".")': "no known program or kind has a dot",
    },
    "adapters.log.lease.LogLease.close": {
        "if self.fd > 0:": DESCRIPTOR,
        "if self.fd >= 1:": DESCRIPTOR,
        "fd, self.fd = self.fd, -2": DESCRIPTOR,
    },
    "adapters.log.write_ahead.WriteAhead.__init__": {
        "self._fd = -2": DESCRIPTOR,
        **dict.fromkeys(("self._inode = (1, 0)", "self._inode = (0, 1)"), SET_LATER),
        "self._position = self._used = self._checksum = 1": SET_LATER,
    },
    "adapters.log.write_ahead.WriteAhead._check_place": {
        "raise FileNotFoundError(None)": "only its class counts, and its caller handles it",
    },
    "adapters.log.write_ahead.WriteAhead.accepts": {
        "if self._fd <= 0 or self._used + HEADER.size + size > SIZE:": DESCRIPTOR,
        "if self._fd < 1 or self._used + HEADER.size + size > SIZE:": DESCRIPTOR,
        "return len(self._log_seconds) / TURN >= len(self._seconds) // TURN": (
            "a number and its whole part are at least the same whole numbers"
        ),
    },
    "adapters.log.write_ahead.WriteAhead.left": {
        'position, data = records(content or b"XXXX", before)': "too short for a header, as nothing is",
        "content = files.read_bytes(self.path, )": "a larger file is no record, and is moved in any case",
    },
    "adapters.log.write_ahead.WriteAhead.restart": {
        "elif self._fd > 0 and len(self._log_seconds) < COMPARED:": DESCRIPTOR,
        "elif self._fd >= 1 and len(self._log_seconds) < COMPARED:": DESCRIPTOR,
        "elif self._fd >= 0 and len(self._log_seconds) <= COMPARED:": (
            "only when there are as many as are compared, something is decided"
        ),
    },
    "adapters.log.write_ahead.records": {
        "while at + HEADER.size < len(content):": "a record has at least one byte after its header",
        "start = HEADER.unpack_from(content)[0] if len(content) > HEADER.size else 0": NO_BYTES,
        "start = HEADER.unpack_from(content)[0] if len(content) >= HEADER.size else 1": NO_BYTES,
    },
    "adapters.log.write_ahead.WriteAhead.close": {
        "if self._fd > 0:": DESCRIPTOR,
        "if self._fd >= 1:": DESCRIPTOR,
        "self._fd = -2": DESCRIPTOR,
    },
    "adapters.log.reader.Reader.events": {
        'tail = b"XXXX".join(': ONE_CHUNK,
        'beginning = b"XXXX".join(snapshot.chunks(0, min(start.length, len(BEGINNING))))': ONE_CHUNK,
    },
    "adapters.log.reader.Scan.__init__": {'self.rest = b"XXXX"': "set at the end of each pass"},
    "adapters.log.reader.Scan._record_damage": {
        "claimed, before = codec.hash_of(line), self._open[+1] if self._open else self.hash": (
            "the second of two is the last one"
        ),
    },
    "adapters.log.writer.Writer.__init__": {
        "self._oldest = 1.0": "set with the first event that waits, and not read before",
    },
    "adapters.log.writer.Writer._encode": {
        "if len(line) < codec.MAX_EVENT_BYTES:": "data is shorter than its line, so it stays on it as well",
    },
    "engine.checks.feedback._shares": {"shares = [1] * len(needed)": "every share is set after that"},
    "engine.checks.junit._Document.__init__": {
        "self._text_chars = 1": "set again when a result begins",
    },
    "engine.checks.junit._Document._count": {
        'owner, name, line = test.get("classname", None), test.get("name", ""), test.get("line", "")': FALSE,
        'owner, name, line = test.get("classname", ), test.get("name", ""), test.get("line", "")': FALSE,
        'owner, name, line = test.get("classname", ""), test.get("name", ""), test.get("line", "XXXX")': (
            "what is no number counts as no line, too"
        ),
    },
    "engine.checks.junit._Document.read": {
        "parser.Parse(report[start : start + _CHUNK], )": "the default of the parser",
        "parser.buffer_text = False": "the pieces of a text are joined in any case",
    },
    "engine.checks.output._severity": {
        'return "XXXX", text': "an unknown severity is an error, as none is",
    },
    "engine.checks.output._split": {
        "return id + closed[:2], message": "the blank at the end of an id is removed",
    },
    "engine.checks.output.read_lines": {"before = None": FALSE},
    "engine.checks.signature.first_line": {
        'return one_line(head.split("\\n", 2)[0])[:MAX_MESSAGE_CHARS]': FIRST,
        'return one_line(head.split("\\n", )[0])[:MAX_MESSAGE_CHARS]': FIRST,
    },
    "engine.checks.signature.signature": {
        'first = first.removeprefix(_CUT).rpartition(" ")[0]': "the word that was cut goes with its mark",
    },
    "engine.decide.block._after_all": {
        "kind = kinds.pop() if len(kinds) == 1 and kinds < TIMEOUTS else FailureKind.PARALLEL_BLOCK_FAILED": (
            "there is more than one kind of timeout, so one kind is never all of them"
        ),
    },
    "engine.decide.checks._end": {
        'outer = place.path.rpartition(".")[0] if place.branch is None else "XXXX"': NO_NODE,
        "to = next_node(here.plan, outer, here.state.rounds[:-1]) if (outer) or True else None": NO_NODE,
    },
    "engine.decide.checks._go": {
        "limit = max(limits.cycles or DEFAULT_CYCLES, known.limit if known else 1)": (
            "a limit of cycles is never below one"
        ),
    },
    "engine.decide.failure._fall_back": {
        "due_at, choice, first = min(limits, key=None)": ONE_CHOICE,
        "due_at, choice, first = min(limits, )": ONE_CHOICE,
        "due_at, choice, first = min(limits, key=lambda limit: limit[:3])": ONE_CHOICE,
    },
    "engine.decide.failure._end_of_limit": {
        "shortest = min(MIN_LIMIT_DELAY * 2.0 ** min(met, 33), longest)": (
            "both are more than a century, which is beyond every delay that a stage can have"
        ),
    },
    "engine.decide.hooks.end_reason": {
        'progress = state.hook_progress(hook_host("stage_end", at)) if (state.hooks) or True else None': (
            SHORTCUT
        ),
    },
    "engine.decide.hooks._call": {
        'return here.record(started, f.EffectIntended(delivery, "webhook", hook.url or "XXXX", number))': (
            "every webhook has an address: a definition without one is refused"
        ),
    },
    "engine.decide.people.requests_of": {"at = here.place.cursor(1)": SAME_PLACE},
    "engine.decide.requests._consequences": {
        'answer, said = request.answer or "XXXX", request.text.strip()': (
            "called for an answered request only: one without an answer is open"
        ),
    },
    "engine.decide.run._overdue": {"facts = defaults(state) if (state.requests) or True else ()": SHORTCUT},
    "engine.decide.stage._over": {
        "reason = end_reason(here.state, here.place.cursor(0)) if (here.state.hooks) or True else None": (
            SHORTCUT
        ),
        "reason = end_reason(here.state, here.place.cursor(1)) if here.state.hooks else None": SAME_PLACE,
    },
    "engine.decide.task_kinds.in_flight_at": {
        "hooks = calls_in_flight(here.plan, here.state, here.place.cursor(1))": SAME_PLACE,
    },
    "engine.evolve.node._visited": {
        "return replace(state, visits={**state.visits, key: max(run, state.visits.get(key, 1))})": (
            "visits are numbered from one"
        ),
    },
    "engine.evolve.requests._extend_runtime": {
        "state = with_stage(state, Cursor(stage.path, stage.run, 1, provider), excused(stage))": SAME_PLACE,
    },
    "engine.evolve.requests._reset": {
        "return with_fresh_stages(replace(state, recoveries=0, ))": EXCUSED,
        "return with_fresh_stages(replace(state, recoveries=0, recoveries_excused=1))": EXCUSED,
    },
    "engine.evolve.run._started": {
        "return replace(started, waivers=fact.waivers) if (fact.waivers) or True else started": SHORTCUT,
    },
    "engine.evolve.session._apply_control": {
        "return with_stage(state, Cursor(stage.path, stage.run, 1, provider), restarts)": SAME_PLACE,
    },
    "engine.evolve.task._completed": {
        "return replace(done, claim=None) if (at.claim) or True else done": SHORTCUT,
    },
    "runtime.confinement.Confiner.confine": {
        'for entry in command.env.get("PATH", "XXXX").split(os.pathsep):': (
            "without PATH no folder of the project is meant, as with a path that is relative"
        ),
    },
    "runtime.confinement.Placeholders._remove": {
        "mounted = mount_points() if (names) or True else frozenset()": SHORTCUT,
    },
}
"""The reasons, by function as `tests/mutants/generated.py` names it, and by the line it writes."""

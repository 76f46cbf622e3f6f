"""Bugs in who may run an attempt, how its agent is followed and ended, and what is left of it."""

from tests.mutants.mutation import Mutation as Bug

PROGRAM = "agentforge.runtime.supervisor"
ENGINE = "agentforge.runtime.supervision"
RECORD = "agentforge.runtime.exit_record"

CLAIM = ("tests/runtime/test_supervisor_claim.py", "tests/runtime/test_supervisor_doubts.py")
ENDING = ("tests/runtime/test_supervisor_doubts.py", "tests/runtime/test_supervisor_ending.py")
OUTCOME = ("tests/runtime/test_supervisor_doubts.py", "tests/runtime/test_supervisor_outcome.py")
SECRETS = ("tests/runtime/test_supervisor_secrets.py",)
AFTER = ("tests/runtime/test_supervisor_after.py",)
ORDER = ("tests/order/test_recorded_runs.py",)

BUGS = (
    Bug(
        PROGRAM,
        "a claim's content isn't durable",
        "        file.write(json.dumps(record).encode())\n        os.fsync(file.fileno())\n",
        "        file.write(json.dumps(record).encode())\n",
        ORDER,
    ),
    Bug(PROGRAM, "a claim's name isn't durable", "    sync_folder(spec.claim)\n", "", ORDER),
    Bug(
        PROGRAM,
        "a claim is visible before it says whose it is",
        '        write_draft(draft, {**identity, "mark": spec.mark})\n        os.link(draft, spec.claim)\n',
        "        os.close(os.open(draft, os.O_CREAT | os.O_WRONLY))\n        os.link(draft, spec.claim)\n"
        '        write_draft(draft, {**identity, "mark": spec.mark})\n',
        ORDER,
    ),
    Bug(
        PROGRAM,
        "a second supervisor takes the claim over",
        "        os.link(draft, spec.claim)\n",
        "        os.replace(draft, spec.claim)\n        write_draft(draft, {})\n",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "a second supervisor starts the agent, too",
        "    if not take_claim(spec):\n",
        "    take_claim(spec)\n    if False:\n",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "a draft of a claim stays",
        "    finally:\n        os.unlink(draft)\n",
        "    finally:\n        pass\n",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "the environment stays on the disk",
        "        os.unlink(arguments[0])",
        "        pass",
        ("tests/runtime/test_supervised.py",),
    ),
    Bug(
        PROGRAM,
        "an agent is ended on a doubt",
        "            return True  # An agent",
        "            return False  # An agent",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "an agent without a log is never orphaned",
        "        except FileNotFoundError:\n            return False\n        except OSError:",
        "        except OSError:",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "time in which it was stopped counts as unattended",
        "gap = min(now - self.probed, 2 * self.period)",
        "gap = now - self.probed",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "an engine that comes back doesn't begin the grace anew",
        "self.unattended = 0.0 if self.is_held() else",
        "self.unattended = self.unattended if self.is_held() else",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "a probe keeps the lease",
        "            os.close(log)  # Gives",
        "            pass  # Gives",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "an exit record's content isn't durable",
        "        os.fsync(self.file)\n        os.rename(self.draft, self.path)\n",
        "        os.rename(self.draft, self.path)\n",
        ORDER,
    ),
    Bug(PROGRAM, "an exit record's name isn't durable", "        sync_folder(self.path)\n", "", ORDER),
    Bug(
        PROGRAM,
        "a short write of the exit record is ignored",
        '        if os.pwrite(self.file, text, 0) < len(text):\n            raise OSError("short write")\n',
        "        os.pwrite(self.file, text, 0)\n",
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "the blanks stay in an exit record",
        "        os.ftruncate(self.file, len(text))\n",
        "",
        equivalent="JSON may end in blanks",
    ),
    Bug(
        PROGRAM,
        "space for the exit record isn't taken before",
        'os.write(self.file, b" " * RECORD_BYTES)',
        'os.write(self.file, b"")',
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "the exit record comes before the end of what the agent started",
        "            self._end(min(LEFTOVER_GRACE, self.spec.term_grace) if by_itself else self.spec.term_grace)\n",
        "            pass\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "processes that couldn't be ended aren't told",
        "        if self.agent is not None and not self._all_gone():\n",
        "        if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "KILL follows TERM at once",
        "        until = time.monotonic() + grace\n",
        "        until = time.monotonic()\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "a second TERM doesn't hasten the end",
        "self.signals.terms <= asked and (left",
        "(left",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "stopped processes never hear TERM",
        "            send(-group, signal.SIGCONT)",
        "            pass",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "only the agent itself is killed",
        "            for pid in self._freeze():\n",
        "            for pid in {self.agent}:\n",
        equivalent="the children that its death leaves are ours, and `_kill_children` ends them, level by level",
    ),
    Bug(PROGRAM, "no subreaper", "prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0", "False", ENDING),
    Bug(
        PROGRAM,
        "an agent survives its supervisor",
        "            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)\n",
        "",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "the deadline isn't kept",
        "            if now >= deadline:\n",
        "            if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "the idle limit isn't kept",
        "            if now >= silence:\n",
        "            if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "output doesn't count as a sign of life",
        "                self.heard = time.monotonic()\n",
        "                pass\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "output beyond the cap fills the disk",
        "kept, rest = text[: self.room], text[self.room :]",
        'kept, rest = text, b""',
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "the last lines of a flood are lost",
        "        if last and self.error is None:\n",
        "        if False:\n",
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "a short write of the output is ignored",
        "                kept = kept[written:]\n",
        '                kept = b""\n',
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "output isn't synced before the exit record",
        "            os.fsync(self.file)\n        except",
        "            pass\n        except",
        ORDER,
    ),
    Bug(
        PROGRAM,
        "a secret that is cut in two is printed",
        "held_from = self._beginning(text)\n",
        "held_from = len(text)\n",
        SECRETS,
    ),
    Bug(PROGRAM, "what was held back is lost", "        self._write(self.hider.rest())\n", "", SECRETS),
    Bug(
        PROGRAM,
        "a complete secret at the end is printed",
        "            text = text.replace(value, HIDDEN)\n",
        "            pass\n",
        SECRETS,
    ),
    Bug(PROGRAM, "the shorter of two secrets is hidden first", "key=len, reverse=True)", "key=len)", SECRETS),
    Bug(
        PROGRAM,
        "the agent inherits ignored signals",
        "            signal.signal(number, signal.SIG_DFL)\n",
        "            pass\n",
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "a request to end before the start is overlooked",
        'status = "ended" if self.signals.terms else self._start_and_follow()',
        "status = self._start_and_follow()",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "what comes after the agent isn't run",
        "            problem = self._clean_up()\n",
        "            problem = None\n",
        AFTER,
    ),
    Bug(
        PROGRAM,
        "what comes after the agent may take for ever",
        "        until = time.monotonic() + AFTER_SECONDS\n",
        "        until = time.monotonic() + 10000\n",
        AFTER,
    ),
    Bug(
        ENGINE,
        "a supervisor that never claimed counts as started",
        'SupervisedExit(lost="its supervisor died", started=not take_claim(place))',
        'SupervisedExit(lost="its supervisor died", started=True)',
    ),
    Bug(
        ENGINE,
        "a supervisor that never claimed may still start",
        'SupervisedExit(lost="its supervisor died", started=not take_claim(place))',
        'SupervisedExit(lost="its supervisor died", started=read_claim(place) is not None)',
    ),
    Bug(
        ENGINE,
        "an agent starts after it was cancelled",
        '        if take_claim(place):\n            return SupervisedExit(lost="ended before it was started", started=False)\n',
        '        if read_claim(place) is None:\n            return SupervisedExit(lost="ended before it was started", started=False)\n',
    ),
    Bug(
        ENGINE,
        "a reattached engine doesn't claim what never started",
        '        if take_claim(place):\n            return SupervisedExit(lost="the engine died',
        '        if not os.path.exists(place.claim):\n            return SupervisedExit(lost="the engine died',
    ),
    Bug(
        ENGINE,
        "what comes after the agent is noted after its start",
        "            files.write(place.after, files.compact(command.after))\n"
        "        files.write_private(place.spec, json.dumps(spec).encode())\n"
        "        return self._processes.start_supervisor(place.spec)\n",
        "            pass\n"
        "        files.write_private(place.spec, json.dumps(spec).encode())\n"
        "        started = self._processes.start_supervisor(place.spec)\n"
        "        files.write(place.after, files.compact(command.after))\n"
        "        return started\n",
    ),
    Bug(
        ENGINE,
        "secrets of the engine's own environment aren't hidden",
        "spellings({*command.secrets, *self._secrets})",
        "spellings(command.secrets)",
    ),
    Bug(
        ENGINE,
        "the leftovers of a dead supervisor live on",
        '        await self._processes.end_marked(f"{MARK}={mark}")\n',
        "",
    ),
    Bug(ENGINE, "a dead supervisor's container lives on", "        await run_after(place)\n", ""),
    Bug(
        ENGINE,
        "the end of an agent isn't waited for",
        "            await self._processes.wait(claim.identity)\n",
        "            pass\n",
    ),
    Bug(
        ENGINE,
        "what an agent had done before it was ended is dropped",
        'if record is None or record.status == "ended":',
        "if True:",
    ),
    Bug(
        ENGINE,
        "an orphaned agent's work counts",
        '        if record.status == "orphaned":\n',
        "        if False:\n",
    ),
    Bug(ENGINE, "the looser of two time limits counts", "return min((limit for", "return max((limit for"),
    Bug(
        ENGINE,
        "a stranger with the same pid is waited for",
        "        if not self._processes.is_alive(claim.identity):\n",
        "        if False:\n",
        equivalent="waiting looks again at whose pid it is",
    ),
    Bug(
        RECORD,
        "a spec with secrets stays when the engine claims",
        "        files.remove(attempt.spec)\n",
        "        pass\n",
    ),
    Bug(
        RECORD,
        "half an exit record breaks the engine",
        "    except msgspec.DecodeError:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
    ),
)

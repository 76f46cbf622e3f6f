"""Bugs in claiming an attempt, following and ending its agent, and recording the outcome."""

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
        "a claim is visible before it names its owner",
        '        write_draft(draft, {**identity, "mark": spec.mark})\n        os.link(draft, spec.claim)\n',
        "        os.close(os.open(draft, os.O_CREAT | os.O_WRONLY))\n        os.link(draft, spec.claim)\n"
        '        write_draft(draft, {**identity, "mark": spec.mark})\n',
        ORDER,
    ),
    Bug(
        PROGRAM,
        "a second supervisor takes over the claim",
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
        "the temporary file of a claim is left",
        "    finally:\n        os.unlink(draft)\n",
        "    finally:\n        pass\n",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "the environment is left on the disk",
        "        os.unlink(arguments[0])",
        "        pass",
        ("tests/runtime/test_supervised.py",),
    ),
    Bug(
        PROGRAM,
        "an agent is stopped when the lease can't be read",
        "            return True  # When in doubt",
        "            return False  # When in doubt",
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
        "time during which the supervisor was stopped counts as unattended",
        "gap = min(now - self.probed, 2 * self.period)",
        "gap = now - self.probed",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "a returning engine doesn't restart the orphan grace",
        "self.unattended = 0.0 if self.is_held() else",
        "self.unattended = self.unattended if self.is_held() else",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "a probe doesn't release the lease",
        "            os.close(log)  # Also",
        "            pass  # Also",
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
        "padding is left in an exit record",
        "        os.ftruncate(self.file, len(text))\n",
        "",
        equivalent="JSON may end with spaces",
    ),
    Bug(
        PROGRAM,
        "space for the exit record isn't reserved",
        'os.write(self.file, b" " * RECORD_BYTES)',
        'os.write(self.file, b"")',
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "the exit record is written before the agent's processes are gone",
        "            self._end(min(LEFTOVER_GRACE, self.spec.term_grace) if by_itself else self.spec.term_grace)\n",
        "            pass\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "surviving processes aren't reported",
        "        if self.agent is not None and not self._all_gone():\n",
        "        if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "SIGKILL follows SIGTERM immediately",
        "        until = time.monotonic() + grace\n",
        "        until = time.monotonic()\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "a second SIGTERM doesn't skip the grace period",
        "self.signals.terms <= asked and (left",
        "(left",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "stopped processes never handle SIGTERM",
        "            send(-group, signal.SIGCONT)",
        "            pass",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "only the agent itself is killed",
        "            for pid in self._freeze():\n",
        "            for pid in {self.agent}:\n",
        equivalent="its orphaned children become ours, and `_kill_children` kills them level by level",
    ),
    Bug(
        PROGRAM,
        "the supervisor isn't a subreaper",
        "prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0",
        "False",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "an agent survives its supervisor",
        "            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)\n",
        "",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "the deadline isn't enforced",
        "            if now >= deadline:\n",
        "            if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "the idle limit isn't enforced",
        "            if now >= silence:\n",
        "            if False:\n",
        ENDING,
    ),
    Bug(
        PROGRAM,
        "output doesn't reset the idle limit",
        "                self.last_output = time.monotonic()\n",
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
        "a secret split across two reads isn't redacted",
        "held_from = self._beginning(text)\n",
        "held_from = len(text)\n",
        SECRETS,
    ),
    Bug(
        PROGRAM,
        "bytes that were held back are lost",
        "        self._write(self.redactor.rest())\n",
        "",
        SECRETS,
    ),
    Bug(
        PROGRAM,
        "a complete secret at the end isn't redacted",
        "            text = text.replace(value, REDACTED)\n",
        "            pass\n",
        SECRETS,
    ),
    Bug(
        PROGRAM, "the shorter of two secrets is redacted first", "key=len, reverse=True)", "key=len)", SECRETS
    ),
    Bug(
        PROGRAM,
        "the agent inherits ignored signals",
        "            signal.signal(number, signal.SIG_DFL)\n",
        "            pass\n",
        OUTCOME,
    ),
    Bug(
        PROGRAM,
        "a SIGTERM before the start is ignored",
        'status = "ended" if self.signals.terms else self._start_and_follow()',
        "status = self._start_and_follow()",
        CLAIM,
    ),
    Bug(
        PROGRAM,
        "the cleanup program isn't run",
        "            problem = self._clean_up()\n",
        "            problem = None\n",
        AFTER,
    ),
    Bug(
        PROGRAM,
        "the cleanup program has no timeout",
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
        "a supervisor that never claimed can still start",
        'SupervisedExit(lost="its supervisor died", started=not take_claim(place))',
        'SupervisedExit(lost="its supervisor died", started=read_claim(place) is not None)',
    ),
    Bug(
        ENGINE,
        "an agent starts after its cancellation",
        '        if take_claim(place):\n            return SupervisedExit(lost="ended before it was started", started=False)\n',
        '        if read_claim(place) is None:\n            return SupervisedExit(lost="ended before it was started", started=False)\n',
    ),
    Bug(
        ENGINE,
        "a recovering engine doesn't claim an attempt that never started",
        '        if take_claim(place):\n            return SupervisedExit(lost="the engine died',
        '        if not os.path.exists(place.claim):\n            return SupervisedExit(lost="the engine died',
    ),
    Bug(
        ENGINE,
        "the cleanup program is recorded after the agent's start",
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
        "secrets of the engine's environment aren't redacted",
        "spellings({*command.secrets, *self._secrets})",
        "spellings(command.secrets)",
    ),
    Bug(
        ENGINE,
        "leftover processes of a dead supervisor survive",
        '        await self._processes.end_marked(f"{MARK}={mark}")\n',
        "",
    ),
    Bug(ENGINE, "the container of a dead supervisor survives", "        await run_after(place)\n", ""),
    Bug(
        ENGINE,
        "the exit of an agent isn't awaited",
        "            await self._processes.wait(claim.identity)\n",
        "            pass\n",
    ),
    Bug(
        ENGINE,
        "the work of an agent that exited before it was stopped is dropped",
        'if record is None or record.status == "ended":',
        "if True:",
    ),
    Bug(
        ENGINE,
        "the work of an orphaned agent is used",
        '        if record.status == "orphaned":\n',
        "        if False:\n",
    ),
    Bug(ENGINE, "the higher of two time limits is used", "return min((limit for", "return max((limit for"),
    Bug(
        ENGINE,
        "an unrelated process with the same pid is awaited",
        "        if not self._processes.is_alive(claim.identity):\n",
        "        if False:\n",
        equivalent="waiting verifies the identity again",
    ),
    Bug(
        RECORD,
        "a spec with secrets is left when the engine claims",
        "        files.remove(attempt.spec)\n",
        "        pass\n",
    ),
    Bug(
        RECORD,
        "a partial exit record crashes the engine",
        "    except msgspec.DecodeError:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
    ),
)

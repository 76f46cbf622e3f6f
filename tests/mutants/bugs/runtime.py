"""Bugs in what the driver and its performers do, and in which order."""

from tests.mutants.mutation import Mutation as Bug

AGENT = "agentforge.runtime.tasks.agent"
CALL = "agentforge.runtime.tasks.call"
JUDGE = "agentforge.runtime.tasks.judge"
PREPARE = "agentforge.runtime.tasks.prepare"
CONCLUDE = "agentforge.runtime.conclusion"
CONTROL = "agentforge.runtime.controls"
DRIVER = "agentforge.runtime.driver"
FILES = "agentforge.system.files"
HEAD = "agentforge.runtime.head_keeper"
IMPORT = "agentforge.legacy.import_run"
ITERATIONS = "agentforge.runtime.iteration_files"
JOURNAL = "agentforge.runtime.journal"
LIVING = "agentforge.runtime.supervision"
LOCK = "agentforge.app.runs.lock_file"
RECORDING = "agentforge.runtime.recorder"
STATE = "agentforge.runtime.state_writer"

ORDER = ("tests/order/test_recorded_runs.py",)

BUGS = (
    Bug(
        JOURNAL,
        "what an earlier engine only wrote is acted upon",
        "        self._durable = -1\n",
        "        self._durable = writer.head.length\n",
    ),
    Bug(JOURNAL, "sync doesn't wait", "        self.writer.sync()\n", "        self.writer.flush()\n"),
    Bug(
        JOURNAL,
        "what was recorded while a thread waited counts as durable",
        "            self._durable = length\n",
        "            self._durable = self.writer.head.length\n",
    ),
    Bug(
        JOURNAL,
        "observers hear of events that aren't durable",
        "        self.view.see(event)\n",
        "        self.view.see(event)\n        self._notify()\n",
    ),
    Bug(JOURNAL, "time goes backwards", "if self._latest is not None and now < self._latest:", "if False:"),
    Bug(JOURNAL, "illegal facts are recorded", "        refuse_illegal(state, fact, cursor)\n", ""),
    Bug(
        DRIVER,
        "an intent isn't synced before its act",
        "if any(self._is_act(work) for work in missing.values()):",
        "if False:",
        ORDER,
    ),
    Bug(
        DRIVER,
        "a control is dropped before its record is durable",
        "            await self._journal.sync()\n            for control in taken:\n",
        "            for control in taken:\n",
        ORDER,
    ),
    Bug(
        DRIVER,
        "a control is recorded again by the next engine",
        "if control.id not in self._journal.state.controls:",
        "if True:",
        ("tests/crash/test_kill_controls.py",),
    ),
    Bug(
        DRIVER,
        "a control stays after it was taken",
        "                drop_control(self._layout, control)\n",
        "                pass\n",
        ("tests/sdk/test_stopping.py",),
    ),
    Bug(
        DRIVER,
        "what is no longer wanted goes on",
        "            await self._drop(stale)\n",
        "            pass\n",
        ("tests/runtime/test_agent_programs.py",),
    ),
    Bug(
        DRIVER,
        "an attempt of an earlier engine counts as fresh",
        "fresh = begun in self._begun",
        "fresh = True",
        ("tests/runtime/test_reattachment.py",),
    ),
    Bug(
        DRIVER,
        "an attempt counts as fresh for ever",
        "        self._begun.discard(begun)\n",
        "",
        equivalent="attempts are numbered upwards, so the same one is never begun again in this engine",
    ),
    Bug(
        DRIVER,
        "an answer that comes while the run stops is overlooked",
        "                    if not self._take_answers():\n",
        "                    if True:\n",
        ("tests/sdk/test_requests.py",),
    ),
    Bug(
        DRIVER,
        "the last state isn't written",
        "            await self._state_writer.write()\n",
        "",
        ("tests/sdk/test_engine_run.py",),
    ),
    Bug(
        DRIVER,
        "an error of a performer is swallowed",
        "            self._crash = error\n",
        "            pass\n",
        (
            "tests/sdk/test_providers.py",
            "tests/runtime/test_files_and_locks.py",
            "tests/sdk/test_engine_run.py",
        ),
    ),
    Bug(
        STATE,
        "state.json is ahead of the log",
        "        await self._journal.sync()\n        self.put()\n",
        "        self.put()\n",
        ORDER,
    ),
    Bug(
        CONTROL,
        "resuming keeps old pauses",
        '        if control.action == "pause":\n',
        "        if False:\n",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        CONTROL,
        "resuming drops a cancel",
        '        if control.action == "pause":\n',
        "        if True:\n",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        CONTROL,
        "any text counts as an answer",
        "answer.request == request.id and answer.answer in request.options",
        "answer.request == request.id",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        CONTROL,
        "an answer to another request counts",
        "answer.request == request.id and answer.answer in request.options",
        "answer.answer in request.options",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(FILES, "a control's content isn't durable", "_NEW, durable=True)", "_NEW)", ORDER),
    Bug(
        FILES,
        "a control's name isn't durable",
        "        sync_directory(folder)\n        return True",
        "        return True",
        ORDER,
    ),
    Bug(
        FILES,
        "a second answer replaces the first",
        "            os.link(draft, path)\n",
        "            os.replace(draft, path)\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a short write is ignored",
        "        while written < len(content):\n            written += os.write(descriptor, content[written:])\n",
        "",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "the rest of a short write is written from the beginning",
        "written += os.write(descriptor, content[written:])",
        "written += os.write(descriptor, content)",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a file is replaced in place",
        "            _fill(temporary, content, _NEW)\n            os.replace(temporary, path)\n",
        "            _fill(path, content, _NEW)\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "others may read an environment",
        "_fill(path, content, _NEW, 0o600)",
        "_fill(path, content, _NEW)",
        ("tests/system/test_files.py", "tests/runtime/test_supervised.py"),
    ),
    Bug(
        FILES,
        "a draft stays after a failed write",
        "                os.unlink(temporary)\n",
        "                pass\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "links are followed where they mustn't be",
        "0 if links else os.O_NOFOLLOW",
        "0",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a file of any size is read",
        "        if size > most:\n",
        "        if False:\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a claim that is there is taken",
        "_WRITE | os.O_EXCL",
        "_WRITE",
        ("tests/system/test_files.py",),
    ),
    Bug(
        HEAD,
        "a shortened log is accepted on resume",
        "        except LogConflict:\n            raise LogCorrupt(",
        "        except LogConflict:\n            return\n            raise LogCorrupt(",
    ),
    Bug(
        HEAD,
        "the head of another run counts",
        "if kept is None or kept.run_id != run_id:",
        "if kept is None:",
    ),
    Bug(
        CONCLUDE,
        "an old status.json counts for the next attempt",
        'frozenset({"result.json", "status.json", "output.md", "error.json"})',
        'frozenset({"result.json", "output.md", "error.json"})',
    ),
    Bug(
        CONCLUDE,
        "an old result.json counts for the next attempt",
        'frozenset({"result.json", "status.json", "output.md", "error.json"})',
        'frozenset({"status.json", "output.md", "error.json"})',
    ),
    Bug(
        CONCLUDE,
        "a secret in status.json stays",
        "(about.here.result, about.here.status)",
        "(about.here.result,)",
    ),
    Bug(
        CONCLUDE,
        "a secret in result.json stays",
        "(about.here.result, about.here.status)",
        "(about.here.status,)",
    ),
    Bug(
        CONCLUDE,
        "an output_path that is a link is replaced by a file",
        "    place = os.path.realpath(target)\n",
        "    place = target\n",
    ),
    Bug(
        CONCLUDE,
        "what an agent says isn't redacted",
        "output=about.redactor.text(ended.output), failure",
        "output=ended.output, failure",
    ),
    Bug(
        CONCLUDE,
        "why an agent failed isn't redacted",
        "message=about.redactor.text(failure.message)",
        "message=failure.message",
    ),
    Bug(
        CONCLUDE,
        "what a provider returns isn't redacted",
        "result = ended.result and about.redactor.data(ended.result)",
        "result = ended.result",
    ),
    Bug(
        CONCLUDE,
        "what the agent put at the output path is overwritten",
        "    if found is not None and files.read_bytes(_target_note(about)) != files.compact(found):\n        return\n",
        "",
    ),
    Bug(
        CONCLUDE,
        "an attempt is noted twice",
        'if json.loads(line)["attempt"] < about.number:',
        'if json.loads(line)["attempt"] <= about.number:',
    ),
    Bug(CONCLUDE, "an agent that failed counts as done", "    if ended.exit_code != 0:\n", "    if False:\n"),
    Bug(
        CONCLUDE,
        "a mention of the promise ends the stage",
        'next((line for line in lines if line), "") == PROMISE',
        "PROMISE in clean_output(raw).text",
    ),
    Bug(
        AGENT,
        "secrets stay in the files of a lost attempt",
        '        hide_secrets(about)\n        note_attempt(about, "lost"',
        '        note_attempt(about, "lost"',
    ),
    Bug(
        AGENT,
        "secrets stay in the files of a cancelled attempt",
        '        hide_secrets(about)\n        note_attempt(about, "cancelled"',
        '        note_attempt(about, "cancelled"',
    ),
    Bug(AGENT, "an earlier attempt's files aren't set aside", "        archive_leftovers(about)\n", ""),
    Bug(AGENT, "what lies at the output path isn't noted before", "        note_target(about)\n", ""),
    Bug(
        AGENT,
        "an agent that couldn't be started counts as started",
        'started=record.status != "spawn_failed"',
        "started=True",
    ),
    Bug(
        AGENT,
        "an agent that ended by itself counts as cancelled",
        "        if isinstance(ended, Finished):\n            return self._outcome(about, ended)\n",
        "",
    ),
    Bug(AGENT, "a timeout counts as a success", '        case "timeout":\n', '        case "never":\n'),
    Bug(
        AGENT,
        "a continued session isn't told to go on",
        "CONTINUE + prompt if task.resume else prompt",
        "prompt",
    ),
    Bug(
        CALL,
        "the session of a provider that can't resume is kept",
        "if ended.usage is None or not provider.capabilities().supports_resume:",
        "if ended.usage is None:",
    ),
    Bug(
        CALL,
        "a provider's turn isn't waited for",
        "self._locks.get(provider.name, nullcontext())",
        "nullcontext()",
    ),
    Bug(
        CALL,
        "a judge or agent isn't confined",
        "self._confiner.confine(command, call.sandbox, call.place, call.writable)",
        "command",
    ),
    Bug(
        CALL,
        "an attempt inside an engine that died is waited for",
        '            return Lost("it ran inside the engine, which died")\n',
        "            pass\n",
    ),
    Bug(
        JUDGE,
        "what a judge says isn't redacted",
        "ended = replace(ended, output=hide(ended.output))",
        "ended = replace(ended)",
    ),
    Bug(
        JUDGE,
        "a judge that failed is believed",
        "if ended.failure is not None or ended.exit_code != 0:",
        "if ended.failure is not None:",
    ),
    Bug(
        PREPARE,
        "a prompt that a power cut took stays empty",
        "            and sha256(prompt).hexdigest() == task.prompt_sha256\n",
        "",
    ),
    Bug(
        PREPARE,
        "a progress file is begun again",
        "        if os.path.exists(path):\n            return\n",
        "",
    ),
    Bug(
        PREPARE,
        "an iteration that took too long gets the long context again",
        "most = SHORT_CONTEXT if task.brief else MAX_PREVIOUS_OUTPUTS",
        "most = MAX_PREVIOUS_OUTPUTS",
    ),
    Bug(IMPORT, "the last complete iteration is set aside", "int(name) > done:", "int(name) >= done:"),
    Bug(
        IMPORT,
        "only one unfinished iteration is set aside",
        "int(name) > done:",
        "int(name) == done + 1:",
    ),
    Bug(
        IMPORT,
        "outputs beyond the kept ones aren't counted",
        "omitted=max(0, len(written) - KEPT)",
        "omitted=0",
    ),
    Bug(
        ITERATIONS,
        "an iteration's result is written before its output",
        "    if fact.text:\n        files.write(here.output, fact.text.encode())\n    # Last: an iteration that a crash left without it is written again.\n    files.replace(here.result, files.compact(fact.result))\n",
        "    files.replace(here.result, files.compact(fact.result))\n    if fact.text:\n        files.write(here.output, fact.text.encode())\n",
    ),
    Bug(
        ITERATIONS,
        "iterations of two stages are mixed",
        "stage = (at.node_path, at.node_run, at.provider) if at else None",
        "stage = None",
    ),
    Bug(
        LIVING,
        "an agent that ended counts as at work",
        "claim is not None and read_exit(place) is None and",
        "claim is not None and",
    ),
    Bug(LIVING, "an agent that died counts as at work", " and processes.is_alive(claim.identity)", ""),
    Bug(LOCK, "the draft of a lock file is never found", 'name.removesuffix(".tmp")', "name"),
    Bug(
        RECORDING,
        "an exchange is kept twice",
        "        if key in self._kept:\n            return None\n        stash",
        "        stash",
    ),
    Bug(
        RECORDING,
        "what a lost attempt did is played back",
        "dropped = self._rewrite(without=self._work(about))",
        "dropped = None",
    ),
    Bug(
        RECORDING,
        "secrets are kept in a cassette",
        "write_step(path, self._redactor.bytes(content)",
        "write_step(path, content",
    ),
    Bug(
        RECORDING,
        "secrets are kept in an outcome",
        "data = self._redactor.data(msgspec.to_builtins(fact))",
        "data = msgspec.to_builtins(fact)",
    ),
)

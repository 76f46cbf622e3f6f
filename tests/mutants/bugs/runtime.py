"""Bugs in the driver, its performers and the files of a run."""

from tests.mutants.mutation import Mutation as Bug

AGENT = "agentforge.runtime.tasks.agent"
ANSWERS = "agentforge.runtime.answers"
CALL = "agentforge.runtime.tasks.call"
COPIES = "agentforge.runtime.output_copies"
JUDGE = "agentforge.runtime.tasks.judge"
PREPARE = "agentforge.runtime.tasks.prepare"
CONCLUDE = "agentforge.runtime.conclusion"
CONTROL = "agentforge.runtime.controls"
DRIVER = "agentforge.runtime.driver"
FILES = "agentforge.system.files"
FOLDERS = "agentforge.system.folders"
FOLDER = "agentforge.runtime.attempt_folder"
HEAD = "agentforge.runtime.state_folder"
HOOK = "agentforge.runtime.tasks.hook"
HISTORY = "agentforge.views.history"
IMPORT = "agentforge.legacy.import_run"
ITERATIONS = "agentforge.runtime.iteration_files"
JOURNAL = "agentforge.runtime.journal"
SUPERVISION = "agentforge.runtime.supervision"
LEASES = "agentforge.app.runs.leases"
LEFT = "agentforge.runtime.left_files"
LOCK = "agentforge.app.runs.lock_folder"
MANIFEST = "agentforge.runtime.tasks.manifest"
PROOF = "agentforge.runtime.run_proof"
RECORDING = "agentforge.runtime.recorder"
REQUESTS = "agentforge.runtime.requests"
RESUME = "agentforge.app.runs.resume"
RUNNER = "agentforge.app.runs.runner"
STATE = "agentforge.runtime.state_writer"

LIVING = ("tests/surface/test_locks.py", "tests/runtime/test_living_programs.py")
ORDER = ("tests/order/test_recorded_runs.py",)
ONCE = (
    "tests/order/test_recorded_runs.py::"
    "test_names_of_the_folders_of_an_attempt_that_is_not_repeated_are_synced",
)

BUGS = (
    Bug(
        JOURNAL,
        "facts that an earlier engine wrote without a sync count as durable",
        "        self.synced: Head | None = None\n",
        "        self.synced: Head | None = writer.head\n",
    ),
    Bug(JOURNAL, "sync doesn't wait", "        self.writer.sync()\n", "        self.writer.flush()\n"),
    Bug(
        JOURNAL,
        "facts recorded during a sync count as durable",
        "            self.synced = head\n",
        "            self.synced = self.writer.head\n",
    ),
    Bug(
        JOURNAL,
        "observers are notified of events that aren't durable",
        "        self.model.apply(event)\n",
        "        self.model.apply(event)\n        self._notify()\n",
    ),
    Bug(JOURNAL, "time goes backwards", "max(self._clock.now(), continued)", "self._clock.now()"),
    Bug(JOURNAL, "illegal facts are recorded", "        refuse_illegal(state, fact, cursor)\n", ""),
    Bug(
        DRIVER,
        "an intent isn't synced before its act",
        "if any(not isinstance(work, Wait) for work in missing.values()):",
        "if False:",
        ORDER,
    ),
    Bug(
        DRIVER,
        "what a performer reports isn't durable before it goes on",
        "            self._journal.wait_for_disk()\n",
        "",
        ORDER,
    ),
    Bug(
        DRIVER,
        "requests are shown before they are durable",
        "            await self._journal.sync()\n            self._view.write()\n",
        "            self._view.write()\n",
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
        "a recorded control isn't removed",
        "                drop_control(self._layout, control)\n",
        "                pass\n",
        ("tests/sdk/test_stopping.py",),
    ),
    Bug(
        DRIVER,
        "work that is no longer needed isn't cancelled",
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
        "an attempt counts as fresh forever",
        "        self._begun.discard(begun)\n",
        "",
        equivalent="attempt numbers only increase, so this engine never begins the same one again",
    ),
    Bug(
        DRIVER,
        "an answer given while the run stops is missed",
        "                    if not self._take_answers():\n",
        "                    if True:\n",
        ("tests/sdk/test_requests.py",),
    ),
    Bug(
        DRIVER,
        "answers are looked for the last time before the pause is written",
        "                    await self._journal.sync()\n                    # A process that",
        "                    # A process that",
        ("tests/sdk/test_resumption.py",),
    ),
    Bug(
        RESUME,
        "what a resume is based on isn't durable before its answer counts",
        "        await journal.sync()\n        record_resume",
        "        record_resume",
        ("tests/crash/test_kill_waivers.py",),
    ),
    Bug(
        "agentforge.app.runs.answers",
        "an answer is in state.json before its record is durable",
        "        journal.wait_for_disk()\n        StateWriter",
        "        StateWriter",
        ORDER,
    ),
    Bug(
        RUNNER,
        "the view of requests lacks what was recorded before the run is driven",
        "        journal.wait_for_disk()\n        writer = EscalationWriter",
        "        writer = EscalationWriter",
        ("tests/sdk/test_escalations.py",),
    ),
    Bug(
        CALL,
        "a power failure hides that an attempt was started which is not repeated",
        "            if call.once:\n",
        "            if False:\n",
        ONCE,
    ),
    Bug(
        AGENT,
        "an agent that runs at most once is started in a folder without a durable name",
        '            once=task.node.semantics == "at_most_once",\n',
        "",
        ONCE,
    ),
    Bug(
        HOOK,
        "a script that isn't repeated is started in a folder without a durable name",
        '            once=hook.on_lost == "pause",\n',
        "",
        ONCE,
    ),
    Bug(
        FOLDER,
        "only the name of an attempt's own folder is synced",
        '    while folder.startswith(f"{run_dir}/"):\n',
        "    if folder:\n",
        ONCE,
    ),
    Bug(
        AGENT,
        "what a cancelled agent wrote outside its run stays there",
        "        empty_outbox(about.outbox, about.here, about.number, about.progress)\n        hide_secrets",
        "        hide_secrets",
        ("tests/runtime/test_outbox.py",),
    ),
    Bug(
        DRIVER,
        "the final state isn't written",
        "            await self._state_writer.write()\n",
        "",
        ("tests/sdk/test_engine_run.py",),
    ),
    Bug(
        DRIVER,
        "an exception of a performer is swallowed",
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
        "        await self._journal.sync()\n        self._journal.writer.verify()\n",
        "        self._journal.writer.verify()\n",
        ORDER,
    ),
    Bug(
        STATE,
        "the view of a branch is ahead of the log",
        "        await self._journal.sync()\n        self._journal.writer.verify()\n",
        "        write_branch_files(self._layout, self._journal.plan, self._journal.state)\n"
        "        await self._journal.sync()\n        self._journal.writer.verify()\n",
        ("tests/runtime/test_state_writer.py",),
    ),
    Bug(
        MANIFEST,
        "the files of a block are ahead of the log when it ends",
        "        journal.wait_for_disk()\n",
        "",
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
        ANSWERS,
        "any text is accepted as an answer",
        "if not request.accepts(given.answer):",
        "if False:",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        ANSWERS,
        "an answer to another request is accepted",
        "if given.request != request.id:",
        "if False:",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        REQUESTS,
        "a secret in the text of an answer is recorded",
        "hide(answer.text)",
        "answer.text",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        REQUESTS,
        "a secret in an answer is recorded",
        "hide(answer.answer)",
        "answer.answer",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        REQUESTS,
        "an answer after the timeout is taken",
        " if not request.is_overdue]",
        "]",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(
        REQUESTS,
        "the default answers a request before its time",
        "        if wait.due_at <= now:\n",
        "        if True:\n",
        ("tests/runtime/test_controls.py",),
    ),
    Bug(FILES, "a control's content isn't durable", "content, durable=True)", "content)", ORDER),
    Bug(
        FILES,
        "a control's name isn't durable",
        "    os.fsync(folder)\n    return True",
        "    return True",
        ORDER,
    ),
    Bug(
        PROOF,
        "the proof of a run isn't durable before its first event",
        "Disk().replace(path, content)",
        "files.replace(path, content)",
        ORDER,
    ),
    Bug(
        HEAD,
        "the name of the folder of proofs isn't durable",
        "            Disk().make_directories(folder)\n",
        "            files.make_dir(folder)\n",
        ORDER,
    ),
    Bug(
        HEAD,
        "the name of the folder of proofs isn't durable if a killed process made it",
        "            Disk().make_directories(folder)\n",
        "            self.has(kind) or Disk().make_directories(folder)\n",
        (
            "tests/order/test_recorded_runs.py::"
            "test_name_of_a_folder_is_synced_although_its_creator_was_killed",
        ),
    ),
    Bug(
        LEFT,
        "the name of the folder of the first control isn't durable",
        "        files.sync_directory(os.path.dirname(folder))\n",
        "        pass\n",
        ORDER,
    ),
    Bug(
        FILES,
        "a second answer replaces the first",
        "os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)",
        "os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FOLDERS,
        "a short write is ignored",
        "    while written < len(content):\n        written += os.write(descriptor, content[written:])\n",
        "",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FOLDERS,
        "a short write is continued from the beginning",
        "written += os.write(descriptor, content[written:])",
        "written += os.write(descriptor, content)",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a file is replaced in place",
        "        _fill(open_regular(draft, _NEW, folder=folder), content)\n        _rename(folder, draft, folder, name)\n",
        "        os.unlink(name, dir_fd=folder)\n        _fill(open_regular(name, _NEW, folder=folder), content)\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "a temporary file is left after a failed write",
        "        with suppress(OSError):\n            os.unlink(draft, dir_fd=folder)\n",
        "",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FOLDERS,
        "a file that is a link is opened",
        "_REGULAR = os.O_NOFOLLOW | ",
        "_REGULAR = ",
        ("tests/system/test_folders.py",),
    ),
    Bug(
        FOLDERS,
        "links on the path are followed",
        'readlink(f"/proc/self/fd/{descriptor}") == path',
        'readlink(f"/proc/self/fd/{descriptor}") != ""',
        ("tests/system/test_folders.py",),
    ),
    Bug(
        FOLDERS,
        "the walk follows links",
        "os.open(name, FOLDER, dir_fd=folder)",
        "os.open(name, FOLDER & ~os.O_NOFOLLOW, dir_fd=folder)",
        ("tests/system/test_folders.py",),
    ),
    Bug(
        FOLDERS,
        "opening a pipe waits",
        "os.O_NONBLOCK | os.O_NOCTTY",
        "os.O_NOCTTY",
        ("tests/system/test_folders.py",),
    ),
    Bug(
        FOLDERS,
        "a device is read",
        "    if stat.S_ISREG(kind):\n",
        "    if not stat.S_ISDIR(kind):\n",
        ("tests/system/test_folders.py",),
    ),
    Bug(
        FILES,
        "the maximum file size isn't enforced",
        "        if size > max_bytes and not cut:\n",
        "        if False:\n",
        ("tests/system/test_files.py",),
    ),
    Bug(
        FILES,
        "an existing claim is taken",
        "os.close(open_file(path, _NEW))",
        "os.close(open_file(path, _NEW & ~os.O_EXCL))",
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
        "the head of another run is used",
        "return found.head if found.run_id == run_id else None",
        "return found.head",
    ),
    Bug(
        CONCLUDE,
        "an old status.json is used for the next attempt",
        'frozenset({"result.json", "status.json", OUTPUT, "error.json"})',
        'frozenset({"result.json", OUTPUT, "error.json"})',
    ),
    Bug(
        CONCLUDE,
        "an old result.json is used for the next attempt",
        'frozenset({"result.json", "status.json", OUTPUT, "error.json"})',
        'frozenset({"status.json", OUTPUT, "error.json"})',
    ),
    Bug(
        CONCLUDE,
        "secrets in status.json aren't redacted",
        "(about.here.result, about.here.status)",
        "(about.here.result,)",
    ),
    Bug(
        CONCLUDE,
        "secrets in result.json aren't redacted",
        "(about.here.result, about.here.status)",
        "(about.here.status,)",
    ),
    Bug(
        CONCLUDE,
        "an output path that leads outside is only an error of the engine",
        "NotRegular | OutsideRoot | NotADirectoryError",
        "NotRegular",
    ),
    Bug(
        CONCLUDE,
        "the output of an agent isn't redacted",
        "output=about.redactor.text(ended.output), failure",
        "output=ended.output, failure",
    ),
    Bug(
        CONCLUDE,
        "the failure message of an agent isn't redacted",
        "message=about.redactor.text(failure.message)",
        "message=failure.message",
    ),
    Bug(
        CONCLUDE,
        "the result of a provider isn't redacted",
        "result = ended.result and about.redactor.data(ended.result)",
        "result = ended.result",
    ),
    Bug(
        CONCLUDE,
        "a file that the agent wrote to the output path is overwritten",
        "            if about.copies is None or about.copies.claim(project, target, content):\n",
        "            if True:\n",
    ),
    Bug(
        CONCLUDE,
        "an attempt is listed twice",
        "0 < number < about.number",
        "0 < number <= about.number",
    ),
    Bug(CONCLUDE, "a failed agent counts as successful", "    if ended.exit_code != 0:\n", "    if False:\n"),
    Bug(
        CONCLUDE,
        "a mention of the promise ends the stage",
        'next((line for line in lines if line), "") == PROMISE',
        "PROMISE in clean_output(raw).text",
    ),
    Bug(
        AGENT,
        "the files of a lost attempt aren't redacted",
        '        hide_secrets(about)\n        note_attempt(about, "lost"',
        '        note_attempt(about, "lost"',
    ),
    Bug(
        AGENT,
        "the files of a cancelled attempt aren't redacted",
        '        hide_secrets(about)\n        note_attempt(about, "cancelled"',
        '        note_attempt(about, "cancelled"',
    ),
    Bug(AGENT, "the files of an earlier attempt aren't archived", "        archive_leftovers(about)\n", ""),
    Bug(
        COPIES,
        "a report that an agent wrote is replaced by its message",
        "        if found is not None and found not in self._kept(target).made:\n            return False\n",
        "",
    ),
    Bug(
        AGENT,
        "an agent that failed to start counts as started",
        'started=record.status != "spawn_failed"',
        "started=True",
    ),
    Bug(
        AGENT,
        "an agent that exited by itself counts as cancelled",
        "        if isinstance(ended, Finished):\n            return self._outcome(about, ended)\n",
        "",
    ),
    Bug(AGENT, "a timeout counts as a success", '        case "timeout":\n', '        case "never":\n'),
    Bug(
        AGENT,
        "a resumed session isn't told to continue",
        "CONTINUE + prompt if resume else prompt",
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
        "the lock of a provider isn't awaited",
        "lock = self._locks.get(provider.name)",
        "lock = None",
    ),
    Bug(
        CALL,
        "judges and agents aren't sandboxed",
        "self._supervised.run(call.place, confined,",
        "self._supervised.run(call.place, command,",
    ),
    Bug(
        CALL,
        "an in-process attempt of a dead engine is awaited",
        '            return Lost("it ran inside the engine, which died")\n',
        "            pass\n",
    ),
    Bug(
        JUDGE,
        "the output of a judge isn't redacted",
        "ended = replace(ended, output=hide(ended.output))",
        "ended = replace(ended)",
    ),
    Bug(
        JUDGE,
        "the judgment of a failed judge is used",
        "if ended.failure is not None or ended.exit_code != 0:",
        "if ended.failure is not None:",
    ),
    Bug(
        PREPARE,
        "a prompt lost in a power failure isn't restored",
        "            and sha256(prompt).hexdigest() == task.prompt_sha256\n",
        "",
    ),
    Bug(
        PREPARE,
        "a progress file is overwritten",
        "        if files.is_file(path):\n            return\n",
        "",
    ),
    Bug(
        PREPARE,
        "an iteration that timed out gets the full context again",
        "max_outputs = SHORT_CONTEXT if task.brief else MAX_PREVIOUS_OUTPUTS",
        "max_outputs = MAX_PREVIOUS_OUTPUTS",
    ),
    Bug(IMPORT, "the last complete iteration is archived", "int(name) > done:", "int(name) >= done:"),
    Bug(
        IMPORT,
        "only one unfinished iteration is archived",
        "int(name) > done:",
        "int(name) == done + 1:",
    ),
    Bug(
        IMPORT,
        "outputs beyond the limit aren't counted",
        "omitted=max(0, len(written) - KEPT)",
        "omitted=0",
    ),
    Bug(
        ITERATIONS,
        "the result of a light iteration is written before its output",
        "    if fact.text:\n        files.write(here.output, fact.text.encode())\n    # Written last: without it, the iteration is written again after a crash.\n    files.replace(here.result, files.compact(fact.result))\n",
        "    files.replace(here.result, files.compact(fact.result))\n    if fact.text:\n        files.write(here.output, fact.text.encode())\n",
    ),
    Bug(
        HISTORY,
        "light iterations of different stages are kept in one list",
        "self.light.setdefault(_key(event.cursor.node_path, event.cursor.provider), [])",
        'self.light.setdefault("", [])',
    ),
    Bug(
        HISTORY,
        "all light iterations are kept in memory",
        "            del light[:-MAX_LIGHT]\n",
        "",
    ),
    Bug(
        SUPERVISION,
        "an agent with an exit record counts as running",
        "if claim is None or read_exit(place, mark) is not None:",
        "if claim is None:",
        LIVING,
    ),
    Bug(
        SUPERVISION,
        "a dead agent counts as running",
        " and processes.is_alive(claim.identity)",
        "",
        LIVING,
    ),
    Bug(
        LEASES,
        "the lease is released before the lock file is removed",
        "            if not keep_lock:\n"
        "                remove_lock(self._runs.project, journal.session)\n"
        "            journal.close()\n",
        "            journal.close()\n"
        "            if not keep_lock:\n"
        "                remove_lock(self._runs.project, journal.session)\n",
        ("tests/sdk/test_stale_locks.py",),
    ),
    Bug(LOCK, "the draft of a lock is never found", "(drafted(name) or name for", "(name for"),
    Bug(
        RECORDING,
        "an exchange is recorded twice",
        "        if key in self._kept:\n            return None\n        stash",
        "        stash",
    ),
    Bug(
        RECORDING,
        "the exchanges of a lost attempt are replayed",
        "dropped = self._rewrite(without=self._work(about))",
        "dropped = None",
    ),
    Bug(
        RECORDING,
        "secrets in a cassette aren't redacted",
        "write_step(path, self._redactor.bytes(content)",
        "write_step(path, content",
    ),
    Bug(
        RECORDING,
        "secrets in an outcome aren't redacted",
        "data = self._redactor.data(msgspec.to_builtins(fact))",
        "data = msgspec.to_builtins(fact)",
    ),
    Bug(
        RECORDING,
        "answers after a lost attempt are numbered as in the run",
        "attempt=attempts or None",
        "attempt=attempt_of(asked) or None",
        ("tests/runtime/test_recorder.py",),
    ),
)

"""Bugs in what decides and what folds events into state."""

from tests.mutants.mutation import Mutation as Bug

BLOCK = "agentforge.engine.decide.block"
DECIDE = "agentforge.engine.decide.run"
FAILURE = "agentforge.engine.decide.failure"
STAGE = "agentforge.engine.decide.stage"
EVOLVE = "agentforge.engine.evolve.run"
OF_ATTEMPT = "agentforge.engine.evolve.attempt"
OF_BLOCK = "agentforge.engine.evolve.block"
OF_STAGE = "agentforge.engine.evolve.stage"
JUDGMENT = "agentforge.engine.normalise"
LEGAL = "agentforge.engine.legal"
REQUESTS = "agentforge.engine.decide.requests"
RETRY = "agentforge.engine.decide.failure"
ROUTING = "agentforge.engine.decide.routing"
TERMINATION = "agentforge.engine.decide.termination"
NORMALISE = "agentforge.engine.normalise"

BUGS = (
    Bug(
        DECIDE,
        "an at-most-once question is hidden behind another branch's reason",
        "reason = AT_MOST_ONCE if AT_MOST_ONCE in reasons else reasons[0]",
        "reason = reasons[0]",
    ),
    Bug(
        DECIDE,
        "a cancelled run that waits stays paused",
        "_cancelled, _overdue, _answered",
        "_overdue, _answered",
    ),
    Bug(DECIDE, "answers have no consequences", "_stopping, _consequences)", "_stopping)"),
    Bug(
        DECIDE,
        "a request to stop ends agents at once",
        "if stop.now and known.status is TaskStatus.RUNNING",
        "if known.status is TaskStatus.RUNNING",
    ),
    Bug(
        DECIDE,
        "an agent that is being ended is ended again",
        "if stop.now and known.status is TaskStatus.RUNNING and ending",
        "if stop.now and ending",
    ),
    Bug(DECIDE, "the grace of a pause never ends", "if stop.due_at and not stop.now:", "if False:"),
    Bug(DECIDE, "a second visit has the first's number", "state.visits.get(step.path, 0) + 1", "1"),
    Bug(
        DECIDE,
        "a run with open requests and no work goes on",
        "if decision.facts or not waiting:",
        "if decision.facts or not waiting or not decision.work:",
    ),
    Bug(
        BLOCK,
        "a block is over when one branch is",
        "if all(branch.status in OVER for branch in branches):",
        "if any(branch.status in OVER for branch in branches):",
    ),
    Bug(BLOCK, "a failed branch doesn't fail its block", "    if failed:\n", "    if False:\n"),
    Bug(
        BLOCK, "a block is done before its manifest is written", "    if block.manifest:\n", "    if True:\n"
    ),
    Bug(
        BLOCK,
        "the work of only one branch is wanted",
        "        work += ruling.work\n",
        "        work = list(ruling.work)\n",
    ),
    Bug(
        FAILURE,
        "the provider that failed takes over from itself",
        "if i != self.attempt.choice and i not in resting",
        "if i not in resting",
    ),
    Bug(
        FAILURE,
        "a provider that rests is asked",
        "if i != self.attempt.choice and i not in resting",
        "if i != self.attempt.choice",
    ),
    Bug(
        FAILURE,
        "providers give way to each other for ever",
        "not in PROVIDER_FAILURES or iteration.gave_way >= len(node.chain)",
        "not in PROVIDER_FAILURES",
    ),
    Bug(FAILURE, "a limit that may not be waited for is", 'if policy.do == "fail":', "if False:"),
    Bug(
        FAILURE,
        "max_wait counts from each limit anew",
        "since = failed.iteration.limited_since or failed.ended_at",
        "since = failed.ended_at",
    ),
    Bug(
        FAILURE,
        "a reset time in the past is believed",
        "return max(failure.resets_at, ended_at + timedelta(seconds=least))",
        "return failure.resets_at",
    ),
    Bug(
        FAILURE,
        "the delay of a limit doesn't grow",
        "timedelta(seconds=min(first * 2.0 ** min(met, 32), most))",
        "timedelta(seconds=min(first, most))",
    ),
    Bug(
        FAILURE,
        "a provider that a person must mend is asked again later",
        "until = None if failed.failure.kind in NEEDS_PERSON else failed.ended_at + rest",
        "until = failed.ended_at + rest",
    ),
    Bug(
        STAGE,
        "work that must be done once is done again",
        'node.semantics != "at_most_once" or',
        'node.semantics == "at_most_once" or',
    ),
    Bug(
        STAGE, "a fourth loss in a row asks, not the third", "MAX_LOST_IN_A_ROW = 3", "MAX_LOST_IN_A_ROW = 4"
    ),
    Bug(
        STAGE,
        "recoveries without progress never ask",
        "if state.recoveries - state.recoveries_excused < MAX_RECOVERIES:",
        "if True:",
    ),
    Bug(STAGE, "the runtime limit isn't kept", "    if here.remaining != 0.0:\n", "    if True:\n"),
    Bug(
        STAGE,
        "an attempt may take longer than the run",
        "(node.timeout, here.remaining) if",
        "(node.timeout,) if",
    ),
    Bug(
        STAGE,
        "another provider goes on with an agent's session",
        "agent is not None and agent.choice == choice and",
        "agent is not None and",
    ),
    Bug(
        STAGE,
        "a session is continued without end",
        " and agent.continued < MAX_CONTINUED",
        "",
    ),
    Bug(
        STAGE,
        "the delay begins anew whenever it is looked at",
        "or at.delay_over or at.last_completed_at is None",
        "or at.last_completed_at is None",
    ),
    Bug(
        STAGE,
        "a judge that fails all the time is asked",
        "if at.judge_failures >= MAX_JUDGE_FAILURES:",
        "if False:",
    ),
    Bug(
        STAGE,
        "an attempt's number is used again",
        "attempt=iteration.attempts + 1,",
        "attempt=max(iteration.attempts, 1),",
    ),
    Bug(
        STAGE,
        "the judge's number is used again",
        "number = at.judge.number + 1 if at.judge else 1",
        "number = 1",
    ),
    Bug(
        EVOLVE,
        "the second pass of a node goes on with the first's state",
        "at.path == cursor.node_path and at.run == cursor.node_run:",
        "at.path == cursor.node_path:",
    ),
    Bug(
        EVOLVE,
        "a pause takes a cancel back",
        "            if state.stop and state.stop.cancel:\n                stop = state.stop\n",
        "",
    ),
    Bug(
        EVOLVE,
        "a resume takes a cancel back",
        "stop=state.stop if state.stop and state.stop.cancel else None,",
        "stop=None,",
    ),
    Bug(
        EVOLVE,
        "controls that were taken are forgotten",
        "controls = (*controls, fact.control)[-MAX_CONTROLS:]",
        "controls = (fact.control,)",
    ),
    Bug(
        EVOLVE,
        "time in which a person was waited for counts as runtime",
        "clock_from=state.clock_from + waited,",
        "clock_from=state.clock_from,",
    ),
    Bug(
        EVOLVE, "recoveries aren't counted", "recoveries=state.recoveries + 1", "recoveries=state.recoveries"
    ),
    Bug(
        EVOLVE,
        "open requests outlive the run",
        "replace(ended, stop=None, requests=())",
        "replace(ended, stop=None)",
    ),
    Bug(
        EVOLVE,
        "a visit that comes again counts less",
        "max(at.run, state.visits.get(at.path, 0))",
        "at.run",
        equivalent="visits of a path are numbered upwards in every log that isn't damaged",
    ),
    Bug(
        EVOLVE,
        "what a request's time makes of it isn't noted",
        "removeprefix(TIMER), overdue=True)",
        "removeprefix(TIMER), overdue=False)",
    ),
    Bug(
        OF_ATTEMPT,
        "the next provider inherits the failures of the first",
        "with_attempt(with_iteration(known, failures=()), status=status",
        "with_attempt(known, status=status",
    ),
    Bug(
        OF_ATTEMPT,
        "a provider rests twice over",
        "others = tuple(known for known in at.unavailable if known.choice != now.choice)",
        "others = at.unavailable",
    ),
    Bug(
        OF_ATTEMPT,
        "limits that were met aren't counted",
        "limited=at.iteration.limited + 1",
        "limited=at.iteration.limited",
    ),
    Bug(
        OF_ATTEMPT,
        "what a session used before is counted twice",
        "return with_iteration(at, agent=replace(before, used=_sum(before.used, usage)))",
        "return with_iteration(at, agent=replace(before, used=usage))",
    ),
    Bug(
        OF_BLOCK,
        "the second pass of a block goes on with the first's branches",
        "(block.path, block.run) == (path, run)",
        "block.path == path",
    ),
    Bug(
        OF_BLOCK,
        "a branch goes on in the stage before",
        "at is not None and at.path == path else",
        "at is not None else",
    ),
    Bug(
        OF_STAGE,
        "an attempt that failed is lost as well",
        "started=fact.started, lost=0\n",
        "started=fact.started\n",
    ),
    Bug(
        OF_STAGE,
        "a limit counts as a failure of the work",
        "    if fact.kind in LIMITS:\n",
        "    if False:\n",
    ),
    Bug(OF_STAGE, "lost attempts aren't counted", "lost = attempt.lost + 1 if", "lost = attempt.lost if"),
    Bug(
        OF_STAGE,
        "an agent that never started takes its session with it",
        "_resumed_by(at), None) if started else at",
        "_resumed_by(at), None)",
        equivalent="one that never started names no session, and the one that it was to continue stays known",
    ),
    Bug(
        OF_STAGE,
        "stops that aren't in a row add up",
        "stops = at.stops + 1 if result.stop else 0",
        "stops = at.stops + 1 if result.stop else at.stops",
    ),
    Bug(
        OF_STAGE,
        "plateaus that aren't in a row add up",
        "if fact.result.signals.plateau_suspected else 0",
        "if fact.result.signals.plateau_suspected else at.plateaus",
    ),
    Bug(
        OF_STAGE,
        "a resume forgets work that mustn't be done twice",
        "replace(attempt, lost=0) if attempt.once and attempt.ended_without_result else None",
        "None",
    ),
    Bug(
        OF_STAGE,
        "a judge that was ended counts as lost",
        "        case f.JudgeLost() if judge.status is TaskStatus.ENDING:\n"
        "            return replace(at, judge=replace(judge, status=TaskStatus.CANCELLED))\n",
        "",
    ),
    Bug(OF_STAGE, "a failed judge is asked three times", "MAX_JUDGE_CALLS = 2", "MAX_JUDGE_CALLS = 3"),
    Bug(
        LEGAL,
        "anything may be recorded after the end",
        "if state.status in FINAL and not isinstance(fact, _LOG_FACTS):",
        "if False:",
    ),
    Bug(
        LEGAL,
        "an attempt begins while another runs",
        "isinstance(fact, f.AttemptStarted) and attempt.status not in _ALLOWS_NEXT_ATTEMPT",
        "isinstance(fact, f.AttemptStarted) and attempt.status is None",
    ),
    Bug(
        LEGAL,
        "a request is answered twice",
        "if known is None or known.is_open != isinstance(fact, f.RequestAnswered):",
        "if known is None:",
    ),
    Bug(
        LEGAL,
        "an answer that comes too late counts",
        'known.is_overdue and fact.by != "default"',
        "False",
    ),
    Bug(
        REQUESTS,
        "the same question is asked twice",
        "if question.key in asked or any(request.key == question.key for request in state.requests):",
        "if question.key in asked:",
    ),
    Bug(
        REQUESTS,
        "two branches ask for the run at once",
        "if question.key in asked or any(",
        "if any(",
    ),
    Bug(
        REQUESTS,
        "a request is closed before its consequence is recorded",
        'return Draft(cancel, at), Draft(f.RequestResolved(request.id, "cancel"), at)',
        'return Draft(f.RequestResolved(request.id, "cancel"), at), Draft(cancel, at)',
    ),
    Bug(
        REQUESTS,
        "an answer counts for a later iteration",
        "return stage if number == at.iteration else None",
        "return stage",
    ),
    Bug(
        RETRY,
        "one attempt too many",
        "len(failures) < policy.max_attempts",
        "len(failures) <= policy.max_attempts",
    ),
    Bug(
        RETRY,
        "an unknown failure is tried again",
        "ATTEMPTS_PER_KIND.get(last, 1)",
        "ATTEMPTS_PER_KIND.get(last, 2)",
    ),
    Bug(RETRY, "the pause before a retry has no bound", "min(seconds, policy.max_delay)", "seconds"),
    Bug(RETRY, "the pause grows one step too soon", "** (failures - 1)", "** failures"),
    Bug(ROUTING, "a pipeline runs once too often", "if here[-1] < times:", "if here[-1] <= times:"),
    Bug(ROUTING, "the last node of a pipeline is left out", "index + 1, here)", "index + 2, here)"),
    Bug(
        TERMINATION,
        "a stage has one iteration too many",
        'iterations (max: {limit})" if at.completed >= limit',
        'iterations (max: {limit})" if at.completed > limit',
    ),
    Bug(
        TERMINATION,
        "the judge is asked one iteration too late",
        "and at.completed >= max(1, termination.judged_from)",
        "and at.completed > max(1, termination.judged_from)",
    ),
    Bug(
        TERMINATION,
        "an old look at the queue ends the stage",
        "if at.queue_checked == at.completed and at.queue_left == 0:",
        "if at.queue_left == 0:",
    ),
    Bug(JUDGMENT, "the text 'false' means stop", 'stop.strip().lower() == "true"', "bool(stop)"),
    Bug(
        JUDGMENT,
        "the first of several judgments counts",
        'if "stop" in value:',
        'if "stop" in value and not found:',
    ),
)

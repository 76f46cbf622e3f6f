"""Bugs in the decisions and in folding events into state."""

from tests.mutants.mutation import Mutation as Bug

BLOCK = "agentforge.engine.decide.block"
DECIDE = "agentforge.engine.decide.run"
FAILURE = "agentforge.engine.decide.failure"
RETRY = "agentforge.engine.retry"
STAGE = "agentforge.engine.decide.stage"
STATE = "agentforge.model.state"
STAGE_AT = "agentforge.engine.decide.stage_at"
EVOLVE = "agentforge.engine.evolve.run"
OF_SESSION = "agentforge.engine.evolve.session"
OF_ATTEMPT = "agentforge.engine.evolve.attempt"
OF_BLOCK = "agentforge.engine.evolve.block"
OF_STAGE = "agentforge.engine.evolve.stage"
LEGAL = "agentforge.engine.legal"
REQUESTS = "agentforge.engine.decide.requests"
NODE_ORDER = "agentforge.engine.node_order"
TERMINATION = "agentforge.engine.decide.termination"
NORMALISE = "agentforge.engine.normalise"
QUESTIONS = "agentforge.engine.questions"
REHEARSED = "agentforge.engine.rehearsal.rehearsed_run"

BUGS = (
    Bug(
        DECIDE,
        "the reason of another branch hides an at-most-once question",
        "reason = AT_MOST_ONCE if AT_MOST_ONCE in reasons else reasons[0]",
        "reason = reasons[0]",
    ),
    Bug(
        DECIDE,
        "a cancelled run that is waiting stays paused",
        "_cancelled, _overdue, _answered",
        "_overdue, _answered",
    ),
    Bug(
        DECIDE,
        "answers have no consequences",
        "_stopping, _consequences, _outdated)",
        "_stopping, _outdated)",
    ),
    Bug(
        DECIDE,
        "a request to stop kills agents immediately",
        "if stop.now and (facts",
        "if (facts",
    ),
    Bug(
        STAGE_AT,
        "an agent that is already being stopped is stopped again",
        "if known.status is not TaskStatus.RUNNING:",
        "if False:",
    ),
    Bug(DECIDE, "the grace period of a pause never expires", "if stop.due_at and not stop.now:", "if False:"),
    Bug(DECIDE, "a second visit reuses the number of the first", "state.visits.get(step.path, 0) + 1", "1"),
    Bug(
        DECIDE,
        "a run with open requests and no work doesn't pause",
        "    if decision.facts:\n        return decision\n    # All of them are open",
        "    if decision.facts or not decision.work:\n        return decision\n    # All of them are open",
    ),
    Bug(
        BLOCK,
        "a block completes with its first branch",
        "if all(branch.status in OVER for branch in branches):",
        "if any(branch.status in OVER for branch in branches):",
    ),
    Bug(BLOCK, "a failed branch doesn't fail its block", "    if failed:\n", "    if False:\n"),
    Bug(
        BLOCK,
        "a block completes before its manifest is written",
        "    if block.manifest:\n",
        "    if True:\n",
    ),
    Bug(
        BLOCK,
        "only one branch is given work",
        "        work += ruling.work\n",
        "        work = list(ruling.work)\n",
    ),
    Bug(
        FAILURE,
        "a failed provider falls back to itself",
        "if i != self.attempt.choice and i not in resting",
        "if i not in resting",
    ),
    Bug(
        FAILURE,
        "an unavailable provider is used",
        "if i != self.attempt.choice and i not in resting",
        "if i != self.attempt.choice",
    ),
    Bug(
        FAILURE,
        "providers fall back to each other without end",
        "not in PROVIDER_FAILURES or iteration.gave_way >= len(node.chain)",
        "not in PROVIDER_FAILURES",
    ),
    Bug(
        FAILURE, "a limit is awaited although the policy says to fail", 'if policy.do == "fail":', "if False:"
    ),
    Bug(
        FAILURE,
        "max_wait restarts with every limit",
        "since = failed.iteration.limited_since or failed.ended_at",
        "since = failed.ended_at",
    ),
    Bug(
        FAILURE,
        "a reset time in the past is accepted",
        "return max(failure.resets_at, ended_at + timedelta(seconds=shortest))",
        "return failure.resets_at",
    ),
    Bug(
        FAILURE,
        "the delay of a limit doesn't grow",
        "timedelta(seconds=min(first * 2.0 ** min(met, 32), longest))",
        "timedelta(seconds=min(first, longest))",
    ),
    Bug(
        FAILURE,
        "a provider that needs a person is retried automatically",
        "until = None if failed.failure.kind in NEEDS_PERSON else failed.ended_at + rest",
        "until = failed.ended_at + rest",
    ),
    Bug(
        STAGE,
        "at-most-once work is repeated",
        '    if here.node.semantics != "at_most_once":\n',
        "    if True:\n",
    ),
    Bug(
        STATE,
        "the fourth loss in a row asks, not the third",
        "MAX_LOST_IN_A_ROW = 3",
        "MAX_LOST_IN_A_ROW = 4",
    ),
    Bug(
        STAGE,
        "recoveries without progress are never questioned",
        "return state.recoveries - state.recoveries_excused >= MAX_RECOVERIES",
        "return False",
    ),
    Bug(STAGE_AT, "the runtime limit isn't enforced", "    if here.remaining != 0.0:\n", "    if True:\n"),
    Bug(
        STAGE,
        "an attempt may exceed the remaining runtime",
        "timeout = tightest(node.timeout, here.remaining)",
        "timeout = node.timeout",
    ),
    Bug(
        STAGE,
        "another provider resumes an agent's session",
        "agent is not None and agent.choice == choice and",
        "agent is not None and",
    ),
    Bug(
        STAGE,
        "a session is resumed without limit",
        " and agent.continued < MAX_CONTINUED",
        "",
    ),
    Bug(
        STAGE,
        "the delay restarts with every decision",
        "or at.delay_over or at.last_completed_at is None",
        "or at.last_completed_at is None",
    ),
    Bug(
        STAGE,
        "an unreliable judge isn't skipped",
        "if at.judged < at.completed and at.judge_failures >= MAX_JUDGE_FAILURES:",
        "if False:",
    ),
    Bug(
        STAGE,
        "an attempt number is reused",
        "attempt=iteration.attempts + 1,",
        "attempt=max(iteration.attempts, 1),",
    ),
    Bug(
        STAGE,
        "a judge number is reused",
        "number = at.judge.number + 1 if at.judge else 1",
        "number = 1",
    ),
    Bug(
        EVOLVE,
        "the second pass of a node keeps the state of the first",
        "at.path == cursor.node_path and at.run == cursor.node_run:",
        "at.path == cursor.node_path:",
    ),
    Bug(
        OF_SESSION,
        "a pause revokes a cancel",
        "            if state.stop and state.stop.cancel:\n                stop = state.stop\n",
        "",
    ),
    Bug(
        OF_SESSION,
        "a resume revokes a cancel",
        "stop=state.stop if state.stop and state.stop.cancel else None,",
        "stop=None,",
    ),
    Bug(
        EVOLVE,
        "recorded controls are forgotten",
        "controls=(*state.controls, control)[-MAX_CONTROLS:]",
        "controls=(control,)",
    ),
    Bug(
        OF_SESSION,
        "time spent waiting for a person counts as runtime",
        "clock_from=state.clock_from + waited,",
        "clock_from=state.clock_from,",
    ),
    Bug(
        OF_SESSION,
        "recoveries aren't counted",
        "recoveries=state.recoveries + 1",
        "recoveries=state.recoveries",
    ),
    Bug(
        OF_SESSION,
        "open requests outlive the run",
        "replace(ended, stop=None, requests=())",
        "replace(ended, stop=None)",
    ),
    Bug(
        EVOLVE,
        "an earlier visit lowers the count of visits",
        "max(run, state.visits.get(key, 0))",
        "run",
        equivalent="the visits of a path only increase in an undamaged log",
    ),
    Bug(
        EVOLVE,
        "an expired request isn't marked as overdue",
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
        "a provider is listed twice as unavailable",
        "others = tuple(known for known in at.unavailable if known.choice != now.choice)",
        "others = at.unavailable",
    ),
    Bug(
        OF_ATTEMPT,
        "limits aren't counted",
        "limited=at.iteration.limited + 1",
        "limited=at.iteration.limited",
    ),
    Bug(
        OF_ATTEMPT,
        "earlier usage of a session is counted twice",
        "return with_iteration(at, agent=replace(before, used=_sum(before.used, usage)))",
        "return with_iteration(at, agent=replace(before, used=usage))",
    ),
    Bug(
        OF_BLOCK,
        "the second pass of a block keeps the branches of the first",
        "(block.path, block.run) == (path, run)",
        "block.path == path",
    ),
    Bug(
        OF_BLOCK,
        "a branch continues in its previous stage",
        "at is not None and (at.path, at.run) == (path, run) else",
        "at is not None else",
    ),
    Bug(
        OF_STAGE,
        "a failed attempt keeps the count of losses",
        "started=fact.started, lost=0\n",
        "started=fact.started\n",
    ),
    Bug(
        OF_STAGE,
        "a limit counts as a failed attempt",
        "    if fact.kind in LIMITS:\n",
        "    if False:\n",
    ),
    Bug(STATE, "lost attempts aren't counted", "lost=self.lost + 1", "lost=self.lost"),
    Bug(
        BLOCK,
        "the visits of a branch's stage are those of its block",
        "state.visits.get(visits_key(path, branch.provider), 0) + 1",
        "max(1, state.visits.get(path.rpartition('.')[0], 0))",
    ),
    Bug(
        EVOLVE,
        "a visit of a branch's stage counts only if it is visited again",
        "    if isinstance(fact, f.StageCompleted):\n",
        "    if False:\n",
    ),
    Bug(
        REQUESTS,
        "a checkpoint is cleared again after a crash",
        "is_new = request.subject not in state.cleared",
        "is_new = True",
    ),
    Bug(
        OF_STAGE,
        "an agent that never started drops its session",
        "_resumed_by(at), None) if started else at",
        "_resumed_by(at), None)",
        equivalent="an agent that never started reports no session, and the session to resume stays known",
    ),
    Bug(
        OF_STAGE,
        "stops that aren't consecutive add up",
        "stops = at.stops + 1 if result.stop else 0",
        "stops = at.stops + 1 if result.stop else at.stops",
    ),
    Bug(
        OF_STAGE,
        "plateaus that aren't consecutive add up",
        "if fact.result.signals.plateau_suspected else 0",
        "if fact.result.signals.plateau_suspected else at.plateaus",
    ),
    Bug(
        OF_STAGE,
        "a resume forgets at-most-once work",
        "replace(attempt, lost=0) if attempt.once and attempt.ended_without_result else None",
        "None",
    ),
    Bug(
        OF_STAGE,
        "a stopped judge counts as lost",
        "        case f.JudgeLost() if judge.status is TaskStatus.ENDING:\n"
        "            return replace(at, judge=replace(judge, status=TaskStatus.CANCELLED))\n",
        "",
    ),
    Bug(TERMINATION, "a failed judge is called three times", "MAX_JUDGE_CALLS = 2", "MAX_JUDGE_CALLS = 3"),
    Bug(
        LEGAL,
        "any fact may be recorded after the end",
        "if state.status in FINAL and not isinstance(fact, _LOG_FACTS):",
        "if False:",
    ),
    Bug(
        LEGAL,
        "an attempt starts while another is running",
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
        "a late answer is accepted",
        'known.is_overdue and fact.by != "default"',
        "False",
    ),
    Bug(
        REQUESTS,
        "the same question is asked twice",
        "if known is not None:",
        "if False:",
    ),
    Bug(
        REQUESTS,
        "two branches ask the same question of the run",
        "if question.key in asked:",
        "if False:",
    ),
    Bug(
        REQUESTS,
        "a request is closed before its consequence is recorded",
        "return (*(Draft(fact, at) for fact in before), Draft(resolved, at))",
        "return (Draft(resolved, at), *(Draft(fact, at) for fact in before))",
    ),
    Bug(
        STATE,
        "an answer applies to a later iteration",
        "return stage if number == at.iteration else None",
        "return stage",
    ),
    Bug(
        FAILURE,
        "one attempt too many is allowed",
        "if len(failures) < allowed:",
        "if len(failures) <= allowed:",
    ),
    Bug(
        RETRY,
        "an unlisted failure is retried",
        "ATTEMPTS_PER_KIND.get(last, 1)",
        "ATTEMPTS_PER_KIND.get(last, 2)",
    ),
    Bug(RETRY, "the delay before a retry has no maximum", "min(seconds, policy.max_delay)", "seconds"),
    Bug(RETRY, "the delay before a retry grows one step too early", "** (failures - 1)", "** failures"),
    Bug(NODE_ORDER, "a pipeline runs one pass too many", "if here[-1] < times:", "if here[-1] <= times:"),
    Bug(NODE_ORDER, "the last node of a pipeline is skipped", "index + 1, here)", "index + 2, here)"),
    Bug(
        TERMINATION,
        "a stage has one iteration too many",
        'iterations (max: {limit})" if at.counted >= limit',
        'iterations (max: {limit})" if at.counted > limit',
    ),
    Bug(
        TERMINATION,
        "the judge is called one iteration too late",
        "and at.completed >= max(1, termination.judged_from)",
        "and at.completed > max(1, termination.judged_from)",
    ),
    Bug(
        TERMINATION,
        "an outdated queue check ends the stage",
        "if at.queue_checked == at.completed and at.queue_left == 0:",
        "if at.queue_left == 0:",
    ),
    Bug(NORMALISE, "the text 'false' means stop", 'stop.strip().lower() == "true"', "bool(stop)"),
    Bug(
        NORMALISE,
        "the first of several judgments counts",
        'if "stop" in value:',
        'if "stop" in value and not found:',
    ),
    Bug(
        QUESTIONS,
        "a question without a default doesn't block",
        'item.get("blocking") is not False or default is None',
        'item.get("blocking") is not False',
        ("tests/engine/test_questions.py",),
    ),
    Bug(
        QUESTIONS,
        "the same question is asked twice",
        "found.setdefault(words, question)",
        "found.setdefault(words + str(len(found)), question)",
        ("tests/engine/test_questions.py",),
    ),
    Bug(
        REHEARSED,
        "an enacted request times out although it was answered",
        "or any(self._reply(request, answers) for request in self.state.open_requests)",
        "",
        ("tests/engine/test_rehearsed_answers.py",),
    ),
)

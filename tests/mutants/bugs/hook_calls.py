"""Bugs in calling hooks: their intents and keys, what is repeated, and what waits for them."""

from tests.mutants.mutation import Mutation as Bug

DECIDE = "agentforge.engine.decide.hooks"
SITE = "agentforge.engine.decide.hook_site"
EVOLVE = "agentforge.engine.evolve.hooks"
RUN = "agentforge.engine.decide.run"
STATE = "agentforge.model.state"
LEGAL = "agentforge.engine.legal"
PERFORMER = "agentforge.runtime.tasks.hook"
WEBHOOKS = "agentforge.adapters.httpx_webhooks"

PLAYBOOKS = ("tests/engine/test_decide_hooks.py",)
CALLS = ("tests/runtime/test_hook_performer.py",)
SERVICES = ("tests/adapters/test_httpx_webhooks.py",)

BUGS = (
    Bug(
        DECIDE,
        "the effect of a webhook isn't intended",
        'return here.record(started, f.EffectIntended(delivery, "webhook", hook.url or "", number))',
        "return here.record(started)",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "the effect of a webhook stays open",
        "    if call.effect:\n        return here.record(_effect_closed(call, _then(here, hook, call)))\n",
        "",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a failed webhook counts as a done effect",
        'outcome="done" if is_done else "failed"',
        'outcome="done"',
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "every try has another key",
        "delivery = before.delivery if before else new_delivery(here, hook)",
        "delivery = f'{before.delivery}+' if before else new_delivery(here, hook)",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a hook that has answered is called again",
        "holds = hook.id not in done and _holds(here, hook)",
        "holds = _holds(here, hook)",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "the point of a later iteration counts as passed",
        "if _is_before(point, iteration, progress):",
        "if not _is_before(point, iteration, progress):",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a lost call is repeated although a person is to be asked",
        'return "ask" if call.is_given_up or (call.started and hook.on_lost == "pause") else "repeat"',
        'return "ask" if call.is_given_up else "repeat"',
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "lost calls are repeated forever",
        'return "ask" if call.is_given_up or (call.started and hook.on_lost == "pause") else "repeat"',
        'return "ask" if call.started and hook.on_lost == "pause" else "repeat"',
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a failure that no retry can help is retried",
        "if call.is_retryable and call.failures < hook.max_tries:",
        "if call.failures < hook.max_tries:",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a timeout follows on_failure",
        "policy = hook.on_timeout if call.timed_out else hook.on_failure",
        "policy = hook.on_failure",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a hook may grant more than the plan allows",
        "if request.grants and call.answer.isdigit() and int(call.answer) > limit:",
        "if False:",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "a lost call counts as a failure",
        "return call.as_lost(started=started)",
        "return replace(call.as_lost(started=started), failures=call.failures + 1)",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "the failures of earlier tries are forgotten",
        "failures=before.failures if before else 0,",
        "failures=0,",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "what a hook says is lost",
        "return replace(state, notes=latest_notes((*state.notes, note)))",
        "return state",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "a stopped call counts as lost",
        "return replace(call, status=TaskStatus.CANCELLED, started=fact.started)",
        "return call.as_lost(started=fact.started)",
        PLAYBOOKS,
    ),
    Bug(
        STATE,
        "a call is over while its effect is open",
        "            and not self.effect\n",
        "",
        PLAYBOOKS,
    ),
    Bug(
        RUN,
        "branches go on while a hook has paused the run",
        'if any(request.kind == "pause" for request in state.requests):',
        "if False:",
        PLAYBOOKS,
    ),
    Bug(
        RUN,
        "a run completes before the hooks of its end",
        'call_hooks(plan, state, "session_end") if to is None else None',
        "None",
        PLAYBOOKS,
    ),
    Bug(
        LEGAL,
        "a call may have two outcomes",
        "        _refuse_hook(state, fact)\n",
        "        pass\n",
        PLAYBOOKS,
    ),
    Bug(
        SITE,
        "calls at different iterations have the same key",
        "/{at.node_run}/{at.iteration}/",
        "/{at.node_run}/",
        PLAYBOOKS,
    ),
    Bug(
        PERFORMER,
        "a webhook that an earlier engine was sending is sent again",
        "if task.ending or not fresh:",
        "if task.ending:",
        CALLS,
    ),
    Bug(
        PERFORMER,
        "a script that is running is started again",
        "        if fresh:\n            return self._script_outcome(task, await self._scripts.make",
        "        if True:\n            return self._script_outcome(task, await self._scripts.make",
        CALLS,
    ),
    Bug(
        PERFORMER,
        "a webhook is sent without the signature that it needs",
        "        if name and not secret:\n",
        "        if False:\n",
        CALLS,
    ),
    Bug(
        WEBHOOKS,
        "a webhook has no key",
        '        "Idempotency-Key": message.key,\n',
        "",
        SERVICES,
    ),
    Bug(
        WEBHOOKS,
        "a redirect leads to another origin",
        "if _origin(target) != _origin(url) or target.userinfo:",
        "if target.userinfo:",
        SERVICES,
    ),
)

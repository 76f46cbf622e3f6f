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
        "_call",
        "here.record(started, f.EffectIntended(delivery, 'webhook', hook.url or '', number))",
        "here.record(started)",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "the effect of a webhook stays open",
        "_calling",
        "if call.effect:\n    return here.record(_effect_closed(call, _then(here, hook, call)))",
        "pass",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a failed webhook counts as a done effect",
        "_effect_closed",
        "'done' if is_done else 'failed'",
        "'done'",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "every try has another key",
        "_call",
        "before.delivery",
        "f'{before.delivery}+'",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a hook that has answered is called again",
        "call_hooks",
        "hook.id not in done and _holds(here, hook)",
        "_holds(here, hook)",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "the point of a later iteration counts as passed",
        "call_hooks",
        "_rank(point, iteration) < now_at",
        "not _rank(point, iteration) < now_at",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a lost call is repeated although a person is to be asked",
        "_then",
        "call.is_given_up or (call.started and hook.on_lost == 'pause')",
        "call.is_given_up",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "lost calls are repeated forever",
        "_then",
        "call.is_given_up or (call.started and hook.on_lost == 'pause')",
        "call.started and hook.on_lost == 'pause'",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a failure that no retry can help is retried",
        "_failed",
        "call.is_retryable and call.failures < hook.max_tries",
        "call.failures < hook.max_tries",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a timeout follows on_failure",
        "_failed",
        "hook.on_timeout if call.timed_out else hook.on_failure",
        "hook.on_failure",
        PLAYBOOKS,
    ),
    Bug(
        DECIDE,
        "a hook may grant more than the plan allows",
        "_answer_refusal",
        "request.grants and granted(call.answer, request.grants) > limit",
        "False",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "a lost call counts as a failure",
        "_call",
        "call.as_lost(started=started)",
        "replace(call.as_lost(started=started), failures=call.failures + 1)",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "the failures of earlier tries are forgotten",
        "_started",
        "before.failures if before else 0",
        "0",
        PLAYBOOKS,
    ),
    Bug(
        EVOLVE,
        "what a hook says is lost",
        "_noted",
        "replace(state, notes=latest_notes((*state.notes, note)))",
        "state",
        PLAYBOOKS,
    ),
    Bug(
        "agentforge.model.state",
        "a stopped call counts as lost",
        "TaskState.as_lost",
        "self.status is TaskStatus.ENDING",
        "False",
        PLAYBOOKS,
    ),
    Bug(
        STATE,
        "a call is over while its effect is open",
        "HookCall.is_settled",
        "self.status is TaskStatus.SUCCEEDED and (not self.effect) and (self.outcome in ('continue', 'modify_context'))",
        "self.status is TaskStatus.SUCCEEDED and self.outcome in ('continue', 'modify_context')",
        PLAYBOOKS,
    ),
    Bug(
        RUN,
        "branches go on while a hook has paused the run",
        "_advance",
        "any((request.kind == 'pause' for request in state.requests))",
        "False",
        PLAYBOOKS,
    ),
    Bug(
        RUN,
        "a run completes before the hooks of its end",
        "_session_end",
        "call_hooks(plan, state, 'session_end') if to is None else None",
        "None",
        PLAYBOOKS,
    ),
    Bug(
        LEGAL,
        "a call may have two outcomes",
        "_refuse_task",
        "move(TASK_MOVES, known.status, fact.MOVES_TO)",
        "pass",
        PLAYBOOKS,
    ),
    Bug(
        SITE,
        "calls at different iterations have the same key",
        "new_delivery",
        "f\"{visit}/{(node.id if node else '')}/{at.node_run}/{at.iteration}/{at.provider or ''}\"",
        "f\"{visit}/{(node.id if node else '')}/{at.node_run}/{at.provider or ''}\"",
        PLAYBOOKS,
    ),
    Bug(
        PERFORMER,
        "a webhook that an earlier engine was sending is sent again",
        "HookPerformer.perform",
        "task.ending or not fresh",
        "task.ending",
        CALLS,
    ),
    Bug(
        "agentforge.runtime.tasks.performer",
        "a script that is running is started again",
        "CallPerformer.perform",
        "if task.ending:\n    ended = await self._calls.end(call)\nelif fresh:\n    ended = await self._calls.make(call, lambda: self._request(task))\nelse:\n    ended = await self._calls.reattach(call, lambda pid: self._reattached(task, pid, report))",
        "if task.ending:\n    ended = await self._calls.end(call)\nelse:\n    ended = await self._calls.make(call, lambda: self._request(task))",
        CALLS,
    ),
    Bug(
        PERFORMER,
        "a webhook is sent without the signature that it needs",
        "HookPerformer._webhook",
        "name and (not secret)",
        "False",
        CALLS,
    ),
    Bug(
        WEBHOOKS,
        "a webhook has no key",
        "headers",
        "{'Content-Type': 'application/json', 'User-Agent': f'agentforge/{__version__}', 'Accept-Encoding': 'identity', 'Idempotency-Key': message.key, 'AgentForge-Timestamp': str(message.sent_at)}",
        "{'Content-Type': 'application/json', 'User-Agent': f'agentforge/{__version__}', 'Accept-Encoding': 'identity', 'AgentForge-Timestamp': str(message.sent_at)}",
        SERVICES,
    ),
    Bug(
        WEBHOOKS,
        "a redirect leads to another origin",
        "_target",
        "_origin(target) != _origin(url) or target.userinfo",
        "target.userinfo",
        SERVICES,
    ),
)

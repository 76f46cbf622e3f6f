"""What `dry-run` shows of a plan."""

from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.model.artifact import ArtifactRule
from agentforge.model.delivery import DeliverRule
from agentforge.model.layout import RunLayout
from agentforge.model.plan import (
    AppliedSetting,
    Approval,
    Fixed,
    FromParallel,
    FromStage,
    Guardrails,
    InputSources,
    Items,
    Judgment,
    LimitPolicy,
    Limits,
    Overrides,
    Plan,
    ProviderChoice,
    Queue,
    RetryPolicy,
    SandboxChoice,
)
from agentforge.views.lines.dry_run import APPENDED, preview, readiness_lines

LAYOUT = RunLayout("/run", "auth")


def shown(plan: Plan) -> list[str]:
    return preview(plan, LAYOUT)


def test_preview_of_a_loop_names_its_progress_file() -> None:
    assert shown(plan_of(stage("tidy"), mode="loop"))[:6] == [
        "# Dry run: loop refine",
        "",
        "- Session: auth",
        "- Source: refine.yaml",
        "- Run directory: /run",
        "- Progress: /run/progress-auth.md",
    ]


def test_preview_has_the_request_on_one_line() -> None:
    assert "- Request: Add a function" in preview(plan_of(stage("a")), LAYOUT, request="Add a\nfunction")


def test_preview_has_the_caps_of_the_run_and_of_its_parts() -> None:
    plan = plan_of(stage("a", limits=Limits(tokens=2_000)))
    plan = replace(plan, pipeline=replace(plan.pipeline, limits=Limits(cost_usd=5.5, tokens=9_000)))
    caps = [
        "- Cap: the run may spend at most $5.50, 9,000 tokens",
        "- Cap: stage 'a' may spend at most 2,000 tokens",
    ]
    assert [line for line in shown(plan) if line.startswith(("- Cap", "- Notice"))] == caps
    daily = replace(plan, pipeline=replace(plan.pipeline, daily_usd=50.0, warn_usd=2.25))
    assert [line for line in shown(daily) if line.startswith(("- Cap", "- Notice"))] == [
        *caps,
        "- Cap: all of your runs of a day may spend at most $50.00",
        "- Notice: when the run has spent $2.25",
    ]


def test_preview_of_a_delivery_and_of_iterations_until_the_verdict_is_pass() -> None:
    green = stage("green")
    green = replace(green, termination=Fixed(4, until_pass=True))
    lines = "\n".join(shown(plan_of(green, stage("ship", deliver=DeliverRule("patch")))))
    assert "until the verdict is pass; at most 4 iterations" in lines
    assert "a patch" in lines


def test_preview_names_the_settings_that_changed_the_plan() -> None:
    plan = plan_of(stage("a"))
    settings = (AppliedSetting("provider", "settings.yaml:1:1"),)
    lines = shown(replace(plan, pipeline=replace(plan.pipeline, settings=settings)))
    assert "- Setting: provider (settings.yaml:1:1)" in lines


def test_preview_of_everything_a_stage_may_say() -> None:
    sources = InputSources(
        (FromStage("plan", "0", "all"),), (FromParallel("ideas", "duel", "1", ("claude", "codex")),)
    )
    full = stage(
        "build",
        4,
        description="builds\nit",
        provider=ProviderChoice("command", ""),
        termination=Queue(4),
        delay=2.5,
        timeout=60.0,
        max_iteration_cost_usd=0.3,
        context="be brief",
        prompt=None,
        prompt_path="stages/ralph/prompt.md",
        sources=sources,
        output_path="out/${SESSION}.md",
    )
    lines = shown(plan_of(replace(full, stage="ralph")))
    assert lines[-14:] == [
        "### 0 build (ralph)",
        "- builds it",
        "- Provider: command",
        "- Sandbox: none",
        "- Iterations: until the queue is empty; at most 4 iterations",
        "- Prompt: stages/ralph/prompt.md",
        "- Delay: 2.5 s between iterations",
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: 1m 00s for an attempt, $0.30 for an attempt",
        "- Context: be brief",
        "- Input: plan (every output)",
        "- Input: ideas of duel: claude, codex (its latest output)",
        "- Output: out/auth.md",
        "- Directory: /run/stage-00-build",
    ]


def test_preview_of_a_retry_policy() -> None:
    asks = RetryPolicy(4, stage=2, retried="any", exhausted="ask")
    of = "at most 4 per iteration for any failure, 2 retries of the stage, then asks"
    assert f"- Attempts: at_least_once, {of}" in shown(plan_of(stage("plan", retry=asks)))


def test_preview_of_a_skipped_stage_says_only_that() -> None:
    plan = plan_of(stage("build"), stage("docs", stage="writer"))
    assert preview(plan, LAYOUT, skipped=("docs",))[-3:] == [
        "",
        "### 1 docs (writer)",
        "- Skipped: nothing is run; the run continues as after the verdict `pass`",
    ]


def test_preview_of_a_judged_pipeline_with_limits_commands_and_passes() -> None:
    plan = plan_of(stage("plan", termination=Judgment(9, 2, 3)), max_runtime=90.0, passes=2)
    info = replace(
        plan.pipeline,
        description="refines",
        commands={"test": "pytest", "lint": "ruff"},
        overrides=Overrides(commands={"test": "pytest -x"}),
    )
    plan = replace(plan, pipeline=info, session=replace(plan.session, inputs=("/a.md",)))
    assert shown(plan) == [
        "# Dry run: pipeline refine",
        "",
        "refines",
        "",
        "- Session: auth",
        "- Source: refine.yaml",
        "- Run directory: /run",
        "- Runs: 2 times",
        "- Runtime limit: 1m 30s",
        "- Judge: claude / haiku",
        "",
        "## Inputs",
        "- /a.md",
        "",
        "## Stages",
        "",
        "### 0 plan",
        "- Provider: claude / opus",
        "- Sandbox: none",
        "- Iterations: until the judge decides 3 stops in a row, from iteration 2; at most 9 iterations",
        "- Prompt: do it",
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: none",
        "- Directory: /run/stage-00-plan",
        "",
        "## Commands",
        "- lint: ruff",
        "- test: pytest -x",
    ]


def test_preview_of_blocks_and_nested_pipelines_has_every_directory() -> None:
    plan = plan_of(nested("inner", block("claude codex", stage("ideas"), stage("rate"))))
    folders = [line for line in shown(plan) if line.startswith("- Directory: ")]
    inner = "/run/pipeline-00-inner/parallel-00-duel"
    assert folders == [
        f"- Directory: {inner}",
        *(
            f"- Directory: {inner}/providers/{provider}/stage-{number}"
            for provider in ("claude", "codex")
            for number in ("00-ideas", "01-rate")
        ),
    ]
    titles = [line for line in shown(plan) if line.startswith("###")]
    assert titles == [
        "### 0.0 duel: claude, codex in parallel",
        "#### 0.0.0 claude: ideas",
        "#### 0.0.1 claude: rate",
        "#### 0.0.0 codex: ideas",
        "#### 0.0.1 codex: rate",
    ]


def test_preview_shows_the_server_and_the_key_of_a_model() -> None:
    config = {"base_url": "https://h.example/v1", "api_key_env": "GATE\x1b"}
    node = replace(stage("plan"), provider=ProviderChoice("api", "m", config))
    assert "- Server: https://h.example/v1, with GATE\ufffd" in shown(plan_of(node))
    node = replace(stage("plan"), provider=ProviderChoice("api", "m", {"base_url": "http://127.0.0.1:1"}))
    assert "- Server: http://127.0.0.1:1, with the key of the model's vendor, if any" in shown(plan_of(node))


def test_preview_shows_fallbacks_permissions_sandbox_attempts_and_limits() -> None:
    sandbox = SandboxChoice("docker", False, "tools:1", ("/cache",), ("secrets", "keys"))
    node = replace(
        stage("plan"),
        provider=ProviderChoice("claude", "opus"),
        fallbacks=(
            ProviderChoice("claude", "haiku", {"permissions": ["--permission-mode", "plan"]}),
            ProviderChoice("gemini", "", {"permissions": []}),
            ProviderChoice("own", ""),
            ProviderChoice("command", ""),
        ),
        sandbox=sandbox,
        semantics="at_most_once",
        idle_timeout=30.0,
        guardrails=Guardrails(600.0),
        on_limit=LimitPolicy("wait"),
    )
    permissions = {"claude": ("--skip-all",), "gemini": ("--yolo",), "own": ()}
    lines = preview(plan_of(node), LAYOUT, permissions)
    assert lines[lines.index("### 0 plan") + 1 : -1] == [
        "- Provider: claude / opus",
        "- Permissions: all (--skip-all)",
        "- Fallback: claude / haiku",
        "- Permissions: --permission-mode plan",
        "- Fallback: gemini",
        "- Permissions: as configured in the CLI's own settings",
        "- Fallback: own",
        "- Permissions: as configured in the CLI's own settings",
        "- Fallback: command",
        "- Sandbox: docker, without network, image tools:1, writable: /cache, hidden: secrets keys",
        "- Iterations: 1 iteration",
        "- Prompt: do it",
        f"- Result: {APPENDED}",
        "- Attempts: at_most_once, a person decides whether a failed one is retried",
        "- Limits: 30s without output, 10m 00s for the stage, at a quota or rate limit: wait",
    ]


def test_preview_shows_settings_of_a_wrong_type_and_a_plain_sandbox() -> None:
    node = replace(
        stage("plan"),
        provider=ProviderChoice("claude", "opus", {"permissions": 3}),
        sandbox=SandboxChoice("bwrap", auto=True),
        retry=RetryPolicy(max_attempts=5, stage=2),
    )
    lines = preview(plan_of(node), LAYOUT, {"claude": ("--skip-all",)})
    assert "- Permissions: as configured in the CLI's own settings" in lines
    assert "- Sandbox: auto (bwrap), with network" in lines
    assert "- Attempts: at_least_once, at most 5 per iteration, 2 retries of the stage" in lines


def test_preview_shows_approvals_checkpoints_and_views() -> None:
    asking = stage("a", approve=Approval("Good\nenough?", "agent", 3600, "abort", 1), checkpoint="one")
    inner = replace(
        nested("n", replace(asking, checkpoint="two"), stage("b", approve=Approval())), checkpoint="one"
    )
    plan = plan_of(asking, inner, stage("c", approve=Approval(timeout=60)))
    plan = replace(plan, pipeline=replace(plan.pipeline, views=("escalations",)))
    lines = shown(plan)
    assert "- Views: escalations" in lines
    asked = [line for line in lines if line.startswith(("###", "- Approval", "- Question"))]
    by_agent = "- Approval: by a person or another agent when the stage has ended; at most 1 round; "
    by_person = "- Approval: by a person when the stage has ended; at most 3 rounds"
    assert asked == [
        "### Checkpoint one: the run waits for an approval",
        "### 0 a",
        f"{by_agent}after 1h 00m without an answer: abort",
        "- Question: Good enough?",
        "### Checkpoint two: the run waits for an approval",
        "### 1.0 a",
        f"{by_agent}after 1h 00m without an answer: abort",
        "- Question: Good enough?",
        "### 1.1 b",
        by_person,
        "### 2 c",
        f"{by_person}; after 1m 00s without an answer: still waits",
    ]


def test_preview_names_each_judge_once() -> None:
    judged = stage("a", termination=Judgment(3))
    own = replace(judged, judge=ProviderChoice("codex", ""))
    assert "- Judge: claude / haiku, codex" in shown(plan_of(judged, own, judged))
    assert not [line for line in shown(plan_of(stage("a"))) if "Judge" in line]


def test_what_prevents_a_run_is_listed_with_its_fix() -> None:
    assert readiness_lines([], []) == []
    assert readiness_lines([("no\nbd", "install it"), ("no judge", "")], ["slow"]) == [
        "",
        "## Not ready: the run would be refused",
        "- no bd; install it",
        "- no judge",
        "",
        "## Warnings",
        "- slow",
    ]


def test_preview_of_artifacts_and_items() -> None:
    rule = ArtifactRule({}, "plan.json", "1.2", heal=0, fill={"wish": "request", "x": "id"})
    lines = shown(
        plan_of(
            stage("plan", artifact=rule),
            stage(
                "build",
                termination=Items(10, "plan.steps"),
                artifact=ArtifactRule({}),
                sources=InputSources(artifact=("goal", "steps")),
            ),
        )
    )
    named = [line for line in lines if line.startswith(("- Artifact:", "- Needs:", "- Iterations: one"))]
    assert named == [
        "- Artifact: version 1.2, as in plan.json, never corrected; wish: the user request; x: a new id",
        "- Iterations: one for each item of plan.steps; at most 10 items",
        "- Artifact: version 1.0, with an inline schema, corrected at most 1 time",
        "- Needs: goal, steps of earlier artifacts",
    ]

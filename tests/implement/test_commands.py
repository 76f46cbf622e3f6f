"""`agentforge start`, `implement`, `fix` and `test`: which stages they run, and what they refuse."""

from tests.implement.slugs import Slugs

STAGES = ["intake", "analyze", "spec", "red", "green", "refactor"]


def test_a_request_becomes_a_tested_change(slugs: Slugs) -> None:
    done, id = slugs.pipeline_of("implement", "Add slugify")
    assert done.code == 0, done
    assert done.lines[0] == "Starting pipeline for: Add slugify"
    first, spec, stages, duration = done.lines[-4:]
    assert first == "Pipeline completed successfully!"
    assert spec.startswith("  Specification: SPEC-")
    assert stages == f"  Stages completed: {', '.join(STAGES)}"
    assert duration.startswith("  Duration: ")
    assert slugs.visited(id) == STAGES
    assert [one["status"] for one in slugs.checks(id)] == ["fail", "pass", "fail", *["pass"] * 3]


def test_a_specification_is_where_a_later_run_begins(slugs: Slugs) -> None:
    slugs.pipeline_of("design", "Add slugify", "--yes")
    (spec,) = (path.stem for path in (slugs.root / ".agentforge/specs").iterdir())
    done, id = slugs.pipeline_of("start", "--from-spec", spec, "--exit-after", "green")
    assert done.code == 0, done
    assert done.lines[0] == "Starting pipeline for: Add slugify"
    assert slugs.visited(id) == ["intake", "clarify", "analyze", "spec", "red", "green"]
    assert "Stages completed: red, green\n  Stages skipped: intake, clarify, analyze, spec\n" in done.out
    shown = slugs.call("show", id, "--history").out
    assert shown.count("skipped by") == 4
    assert f"--from-spec {spec}" in shown
    done, id = slugs.pipeline_of("test", "--from-spec", spec)
    assert done.code == 22, "the tests pass, as the code is there"
    assert slugs.visited(id) == ["red"]


def test_what_a_skipped_stage_would_have_left_is_named(slugs: Slugs) -> None:
    def refused(*words: str) -> str:
        done = slugs.call(*words, "--provider", "scripted")
        assert done.code == 2, done
        return done.err

    assert "'red' needs the field 'spec_id'" in refused("implement", "Add slugify", "--skip-to", "red")
    assert "did you mean `red`?" in refused("implement", "Add slugify", "--skip-to", "re")
    assert "there is no specification 'SPEC-1'" in refused("implement", "--from-spec", "SPEC-1")
    assert "say what you want" in refused("implement")
    assert "the fields 'spec_id', 'components', 'test_cases'" in refused("test")
    (slugs.root / ".agentforge/specs").mkdir()
    (slugs.root / ".agentforge/specs/SPEC-1.yaml").write_text("[1]\n")
    assert "has no specification" in refused("implement", "--from-spec", "SPEC-1")
    (slugs.root / ".agentforge/specs/SPEC-1.yaml").write_text("title: slugify\n")
    both = ("--from-spec", "SPEC-1", "--artifact", "a.json")
    assert "give one of --from-spec and --artifact" in refused("implement", *both)


def test_a_stage_may_be_skipped_with_what_it_would_have_left(slugs: Slugs) -> None:
    (slugs.root / "given.json").write_text('{"spec_id": "S", "components": [], "test_cases": []}')
    done, id = slugs.pipeline_of(
        *("implement", "Add slugify", "--artifact", "given.json", "--skip-to", "red", "--exit-after", "red")
    )
    assert done.code == 0, done
    assert "--skip-to red" in slugs.call("show", id, "--history").out


def test_a_supervised_run_waits_for_approval_and_a_rejection_repeats_the_stage(slugs: Slugs) -> None:
    done, id = slugs.pipeline_of("start", "Add slugify", "-s", "--exit-after", "intake")
    assert (done.code, "Awaiting approval" in done.out) == (0, True), done
    done = slugs.call("reject", id, "-f", "It is urgent")
    assert slugs.visited(id) == ["intake", "intake"]
    assert slugs.call("approve", id).code == 0

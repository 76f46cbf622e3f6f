"""An agent that writes into the folders for controls and answers neither blocks nor ends its run, and reaches
no file outside of them."""

import json

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

CONTROL = ".claude/pipeline-runs/s/control"
JUNK = (
    f"mkdir -p {CONTROL}; cd {CONTROL}; mkfifo a.json; mkdir b.json; : > c.json; ln -s /dev/zero d.json; "
    'head -c 200000 /dev/zero > e.json; ln -s f.json f.json; cd "$OLDPWD"'
)


@pytest.mark.timeout(120)
def test_junk_among_the_controls_does_not_stop_a_run(project: Project) -> None:
    file = project.pipeline(f"one*2={JUNK}; {WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "s")
    assert done.code == 0, done.err
    assert "refused control/a.json: it is not a valid control; moved to a.json.refused" in done.out
    assert project.types("s").count("file_refused") == 12
    status = project.call("status", "s").out
    assert status.count("it is not a valid control") == 3
    (*_, last) = json.loads(project.call("status", "s", "--json").out)["refused"]
    assert last["moved_to"] == "f.json.refused-2"
    assert 'file_refused name="control/a.json" moved_to="a.json.refused"' in project.call("tail", "s").out
    assert project.types("s").count("iteration_complete") == 2
    assert not list((project.root / CONTROL).glob("*.json"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("id", ["../../../../package", "", "x" * 300])
def test_content_of_a_control_reaches_no_other_file(project: Project, id: str) -> None:
    (project.root / "package.json").write_text("{}")
    text = f'{{"id":"{id}","action":"pause","reason":"lunch","now":false}}'
    write = f"[ -e {CONTROL} ] || {{ mkdir -p {CONTROL}; echo '{text}' > {CONTROL}/one.json; }}"
    file = project.pipeline(f"one*2={write}; {WRITE_RESULT}")
    project.call("run", "-p", file, "-s", "s")
    assert project.types("s")[-1] == "session_paused"
    done = project.call("resume", "s")
    assert done.code == 0, done.err
    assert project.types("s").count("session_paused") == 1
    assert (project.root / "package.json").exists()


@pytest.mark.timeout(120)
def test_file_in_the_place_of_the_controls_does_not_stop_a_run(project: Project) -> None:
    file = project.pipeline(f"one=ln -s $HOME {CONTROL}; {WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "s")
    assert done.code == 0, done.err
    assert "refused control: it is not a folder; moved to control.refused" in done.out


FOLDERS = {
    "FIFO": "mkfifo stage-00-one/iterations/002",
    "link": "ln -s $HOME stage-00-one/iterations/002",
    "file": "echo x > stage-00-one/iterations/002",
    "link to a stage": "ln -s $HOME stage-01-two",
    "file in the place of a stage": "echo x > stage-01-two",
}


@pytest.mark.parametrize("plant", FOLDERS.values(), ids=FOLDERS)
def test_what_is_in_the_place_of_a_folder_is_moved_aside_and_reported(project: Project, plant: str) -> None:
    planting = f"[ -e planted ] || (touch planted; cd .claude/pipeline-runs/s; {plant}); {WRITE_RESULT}"
    file = project.pipeline(f"one*2={planting}", f"two={WRITE_RESULT}")
    before = sorted(project.home.iterdir())
    done = project.call("run", "-p", file, "-s", "s")
    assert done.code == 0, done.err
    (refused,) = [event["data"] for event in project.events("s") if event["type"] == "file_refused"]
    assert refused["name"] == plant.rsplit(maxsplit=1)[-1]
    assert refused["reason"] == "it is in the place of a folder of the run"
    assert [path for path in project.home.iterdir() if path not in before and path.name != ".local"] == []

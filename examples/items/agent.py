"""Stands for an agent. Its first plan has a cycle, and its first French greeting is wrong."""

import json
import os
import sys
import time
from pathlib import Path

STEPS = {"s1": ("english", "Hello"), "s2": ("german", "Hallo"), "s3": ("french", "Bonjour")}
FOLDER = Path("greetings")

prompt = sys.stdin.read()
result_file = Path(os.environ["AGENTFORGE_RESULT"])
context = json.loads(result_file.with_name("context.json").read_text())
result = {"decision": "stop"}

if artifact := os.environ.get("AGENTFORGE_ARTIFACT"):
    after = {"s2": ["s1"], "s3": ["s2"]}
    if "was not accepted" not in prompt:
        after["s1"] = ["s3"]
    steps = [
        {"id": id, "title": f"Write the {language} greeting", "after": after.get(id, [])}
        for id, (language, _) in STEPS.items()
    ]
    Path(artifact).write_text(json.dumps({"goal": "A file for each greeting", "steps": steps}))
    result["summary"] = f"planned {len(steps)} steps"
elif item := context.get("item"):
    language, greeting = STEPS[item["id"]]
    if item["id"] == os.environ.get("SLOW"):
        time.sleep(3)
    FOLDER.mkdir(exist_ok=True)
    is_first = not (FOLDER / f"{language}.txt").exists()
    wrong = item["id"] == "s3" and is_first
    (FOLDER / f"{language}.txt").write_text("Bonsoir\n" if wrong else f"{greeting}\n")
    result["summary"] = f"wrote the {language} greeting"
else:
    wrong = [
        id
        for id, (language, greeting) in STEPS.items()
        if (FOLDER / f"{language}.txt").read_text().strip() != greeting
    ]
    found = {"verdict": "fail", "items": wrong} if wrong else {"verdict": "pass"}
    said = f"wrong: {', '.join(wrong)}" if wrong else "all greetings are right"
    result |= {**found, "summary": said, "reason": said}

result_file.write_text(json.dumps(result))

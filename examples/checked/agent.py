"""Stands for an agent: it says each time that the tests pass. The first two times this is a lie."""

import json
import os
import sys
from pathlib import Path

CODE = Path("prices.py")
tries = CODE.read_text().count("# try") if CODE.exists() else 0

if "Write prices.py" in sys.stdin.read():
    total = "sum(prices)" if tries == 2 else f"{tries}"
    notes = "".join(f"# try {number}\n" for number in range(1, tries + 2))
    CODE.write_text(f"def total(prices):\n    return {total}\n\n\n{notes}")
    said = {"decision": "stop", "verdict": "pass", "summary": "All tests pass."}
else:
    said = {"decision": "stop", "summary": f"prices.py was written in {tries} tries."}
Path(os.environ["AGENTFORGE_RESULT"]).write_text(json.dumps(said))

"""Stands for an agent that costs $0.30 each time: it reports that, and writes it to bills.txt."""

import json
import os
import sys
import time
from pathlib import Path

COST = 0.30

sys.stdin.read()
result_file = Path(os.environ["AGENTFORGE_RESULT"])
if os.environ.get("SLOW") in result_file.parts:  # The name of the branch.
    time.sleep(3)
with Path("bills.txt").open("a") as bills:
    bills.write(f"{COST:.2f}\n")
result_file.write_text(json.dumps({"decision": "stop", "summary": "proposed a name"}))
sys.stdout.write(json.dumps({"text": "Anvil", "model": "scripted", "cost": COST}) + "\n")

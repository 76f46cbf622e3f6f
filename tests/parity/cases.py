"""Where the complete recorded cases of agent-pipelines are, if there are any."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("PARITY_CASES") or REPOSITORY.parent / "shared" / "parity")

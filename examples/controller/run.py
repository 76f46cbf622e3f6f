"""Run the pipeline `changelog` of this folder, and wait for its approvals, here or from anywhere else.

python run.py [PIPELINE_ID]
"""

import os
import sys
from pathlib import Path

from stages import Classify

from agentforge.core.pipeline import DefaultEscalationHandler, PipelineController

HERE = Path(__file__).resolve().parent


def main() -> None:
    os.chdir(HERE)
    controller = PipelineController(HERE, escalation_handler=DefaultEscalationHandler(timeout_seconds=600))
    controller.stage_registry.register_factory("classify", Classify)
    if sys.argv[1:]:
        result = controller.execute(resume_pipeline_id=sys.argv[1])
    else:
        result = controller.execute("Fix the login with a wrong password", pipeline_type="changelog")
    print(f"{result.pipeline_id} {result.status.value}", result.error or "")
    if result.deliverable:
        print(result.deliverable["entry"])
    sys.exit(0 if result.success else 1)


if __name__ == "__main__":
    main()

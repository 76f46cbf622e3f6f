"""The agent of the crash runs. What it does is a module, as a program is compiled whenever it starts."""

import os
import sys

sys.path.insert(0, os.environ["CRASH_HOME"])
import agent_work

agent_work.main()

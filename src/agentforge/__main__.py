"""`python -m agentforge`: the command line."""

import sys

if not sys.flags.safe_path:
    # The current folder, which `-m` puts first: a repository must not replace modules or offer providers.
    del sys.path[0]

from agentforge.cli.main import main

if __name__ == "__main__":
    main()

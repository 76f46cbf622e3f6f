"""`python -m agentforge`: the command line."""

from agentforge.cli.main import main

if __name__ == "__main__":
    main()

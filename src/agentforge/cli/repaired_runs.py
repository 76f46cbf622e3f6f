"""The runs that commands show. Loads an engine only if an engine that died left outdated files."""

from agentforge import RunInfo, Runs


class RepairedRuns(Runs):
    """Repairs the files of the runs that it shows."""

    def info(self, session: str, *, cached: bool = True) -> RunInfo:
        found = super().info(session, cached=cached)
        if not self.is_outdated(session, found):
            return found
        from agentforge import Engine

        Engine(self.project).tidy(session)
        return super().info(session, cached=cached)

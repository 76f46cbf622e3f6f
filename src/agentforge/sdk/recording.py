"""What recording and replaying need of a run: a recorder, a provider that plays, a queue to look at."""

from collections.abc import Mapping

from agentforge import __version__
from agentforge.adapters.providers.replay import ReplayProvider
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.cassette import FORMAT, VERSION, Header
from agentforge.model.layout import RunLayout
from agentforge.ports.provider import Provider
from agentforge.runtime.journal import Journal
from agentforge.runtime.recording import Recorder
from agentforge.sdk.redaction import environment_redactor
from agentforge.sdk.wiring import workspace_of


def recorder_of(
    journal: Journal, layout: RunLayout, project: str, environ: Mapping[str, str]
) -> Recorder | None:
    """Of a run that is recorded: its cassette taken up, or begun."""
    settings, plan = journal.state.settings, journal.plan
    if not settings.record:
        return None
    redactor = environment_redactor(environ)
    header = Header(
        FORMAT,
        VERSION,
        name=plan.pipeline.name,
        session=plan.session.name,
        engine=__version__,
        pipeline=redactor.text(files.read_text(f"{layout.root}/pipeline.yaml") or ""),
        plateau_test=settings.plateau_test,
    )
    recorder = Recorder(
        project, layout, plan, workspace_of(project, environ), redactor=redactor, header=header
    )
    recorder.begin()
    return recorder


def played_provider(settings: f.Settings, layout: RunLayout, environ: Mapping[str, str]) -> Provider | None:
    """Who stands for every provider and the judge in a replay."""
    if settings.replay is None:
        return None
    config = {"cassette": layout.replayed, "speed": settings.replay}
    return ReplayProvider(environ, config=config, for_all=True)

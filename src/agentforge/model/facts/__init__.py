"""Everything that can happen in a run, grouped by subject. A fact is named in the past tense, carries its
data, and is never edited: a new meaning is a new fact.

Event types that agent-pipelines already had keep their spelling.
"""

# Each subject lists its facts in a union at the end of its file, so that a new one is added in one place. Its
# docstring begins with the heading that it has in docs/events.md.
# mypy knows that what these files import is not part of this package; Python imports it with the rest.

from typing import get_args

from agentforge.model.facts.check import *
from agentforge.model.facts.deliver import *
from agentforge.model.facts.fact import *
from agentforge.model.facts.files import *
from agentforge.model.facts.hook import *
from agentforge.model.facts.items import *
from agentforge.model.facts.iteration import *
from agentforge.model.facts.judge import *
from agentforge.model.facts.log import *
from agentforge.model.facts.node import *
from agentforge.model.facts.request import *
from agentforge.model.facts.run import *

LOG_FORMAT = 2
"""The format of a run's events. Logs in any other format are rejected."""

AnyFact = (
    AnyRunFact
    | AnyNodeFact
    | AnyIterationFact
    | AnyItemFact
    | AnyJudgeFact
    | AnyCheckFact
    | AnyFilesFact
    | AnyRequestFact
    | AnyHookOrEffect
    | AnyDeliverFact
    | AnyLogFact
)


FirstFact = SessionStarted | LogImported
"""A run starts with one of them."""
PlanFact = FirstFact | PlanChanged
"""From now on the run has the plan of the fact."""

FACTS: dict[str, type[AnyFact]] = {kind.TYPE: kind for kind in get_args(AnyFact)}

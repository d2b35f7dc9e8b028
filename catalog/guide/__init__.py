"""Help me choose: from a need to ranked plans. Pure functions; offers and prices come in as plain data.

`recommend` sizes a need by the rules, `starting_points` answers a company's size and kind of work. Everything that
comes out names its rule (`texts.RULES`) and carries its arithmetic.
"""

from catalog.guide.kinds import TRAINING, Advice, Card, LeftOut, Need, OnQuote, Plan, Step, Unit, Warn
from catalog.guide.plans import recommend
from catalog.guide.start import notes, starting_points

__all__ = [
    "TRAINING",
    "Advice",
    "Card",
    "LeftOut",
    "Need",
    "OnQuote",
    "Plan",
    "Step",
    "Unit",
    "Warn",
    "notes",
    "recommend",
    "starting_points",
]

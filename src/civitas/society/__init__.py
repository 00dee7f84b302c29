"""Societies: where citizens live, and the randomness, time and facts that their blocks share."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "AgentType": "citizen",
    "Answer": "wants",
    "BRACKETS": "services.economy",
    "Bank": "services.economy",
    "Books": "commit",
    "Buy": "wants",
    "Capacities": "places",
    "CitizenAgent": "citizen",
    "CitizenAgentParams": "citizen",
    "CitizenBlock": "blocks.block",
    "CitizenMemory": "citizen",
    "City": "city.city",
    "Draws": "draw",
    "EconomyBlock": "blocks.economy",
    "EconomyBlockParams": "blocks.economy",
    "Engine": "engine",
    "Facts": "facts",
    "Feed": "services.feed",
    "FeedBlock": "blocks.feed",
    "FeedBlockParams": "blocks.feed",
    "Firm": "services.firm",
    "Follow": "wants",
    "Government": "services.economy",
    "Grid": "grid",
    "Hours": "places",
    "Intervention": "experiments.intervention",
    "Interview": "experiments.survey",
    "Like": "wants",
    "LocalEngine": "engine",
    "MobilityBlock": "blocks.mobility",
    "MobilityBlockParams": "blocks.mobility",
    "Mode": "city.map",
    "Move": "wants",
    "Near": "places",
    "NeedsBlock": "blocks.needs",
    "NeedsBlockParams": "blocks.needs",
    "Neighbours": "places",
    "Network": "network",
    "OtherBlock": "blocks.other",
    "OtherBlockParams": "blocks.other",
    "Pay": "wants",
    "Perception": "perception",
    "Place": "city.map",
    "Places": "places",
    "PlanBlock": "blocks.plan",
    "PlanBlockParams": "blocks.plan",
    "Positions": "places",
    "Post": "wants",
    "Question": "experiments.survey",
    "Respondent": "experiments.survey",
    "Road": "city.map",
    "Route": "city.routes",
    "Routes": "places",
    "Save": "wants",
    "Service": "commit",
    "SocialBlock": "blocks.social",
    "SocialBlockParams": "blocks.social",
    "Society": "society",
    "Survey": "experiments.survey",
    "SurveyAnswer": "experiments.survey",
    "View": "perception",
    "Want": "wants",
    "Weather": "facts",
    "Whereabouts": "experiments.watch",
    "Work": "wants",
    "all_blocks": "blocks",
    "citizens": "people.drawn",
    "compare": "experiments.compare",
    "completed": "people.drawn",
    "draw_day": "experiments.pictures",
    "draw_map": "experiments.pictures",
    "make_economy": "services.economy",
    "make_people": "people.drawn",
    "needs": "places",
    "read_people": "people.table",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.society' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.society.{home}"), name)

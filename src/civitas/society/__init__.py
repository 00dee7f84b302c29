"""Societies: where citizens live, and the randomness, time and facts that their blocks share."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "AgentType": "citizen",
    "Answer": "wants",
    "BRACKETS": "economy",
    "Bank": "economy",
    "Books": "commit",
    "Buy": "wants",
    "Capacities": "places",
    "CitizenAgent": "citizen",
    "CitizenAgentParams": "citizen",
    "CitizenBlock": "blocks.block",
    "CitizenMemory": "citizen",
    "City": "city",
    "Draws": "draw",
    "EconomyBlock": "blocks.economy",
    "EconomyBlockParams": "blocks.economy",
    "Engine": "engine",
    "Facts": "facts",
    "Feed": "feed",
    "FeedBlock": "blocks.feed",
    "FeedBlockParams": "blocks.feed",
    "Firm": "firm",
    "Follow": "wants",
    "Government": "economy",
    "Grid": "grid",
    "Hours": "places",
    "Like": "wants",
    "LocalEngine": "engine",
    "MobilityBlock": "blocks.mobility",
    "MobilityBlockParams": "blocks.mobility",
    "Mode": "map",
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
    "Place": "map",
    "Places": "places",
    "PlanBlock": "blocks.plan",
    "PlanBlockParams": "blocks.plan",
    "Positions": "places",
    "Post": "wants",
    "Road": "map",
    "Route": "routes",
    "Routes": "places",
    "Save": "wants",
    "Service": "commit",
    "SocialBlock": "blocks.social",
    "SocialBlockParams": "blocks.social",
    "Society": "society",
    "View": "perception",
    "Want": "wants",
    "Weather": "facts",
    "Work": "wants",
    "all_blocks": "blocks",
    "citizens": "people",
    "completed": "people",
    "make_economy": "economy",
    "make_people": "people",
    "needs": "places",
    "read_people": "table",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.society' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.society.{home}"), name)

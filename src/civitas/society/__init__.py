"""Societies: where citizens live, and the randomness, time and facts that their blocks share."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "AgentType": "citizen",
    "Answer": "wants",
    "Books": "commit",
    "Buy": "wants",
    "Capacities": "places",
    "CitizenAgent": "citizen",
    "CitizenAgentParams": "citizen",
    "CitizenMemory": "citizen",
    "City": "city",
    "Draws": "draw",
    "Engine": "engine",
    "Facts": "facts",
    "Follow": "wants",
    "Grid": "grid",
    "Hours": "places",
    "Like": "wants",
    "LocalEngine": "engine",
    "Mode": "map",
    "Move": "wants",
    "Near": "places",
    "Neighbours": "places",
    "Network": "network",
    "Pay": "wants",
    "Perception": "perception",
    "Place": "map",
    "Places": "places",
    "Positions": "places",
    "Post": "wants",
    "Road": "map",
    "Route": "routes",
    "Routes": "places",
    "Save": "wants",
    "Service": "commit",
    "Society": "society",
    "View": "perception",
    "Want": "wants",
    "Weather": "facts",
    "Work": "wants",
    "needs": "places",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.society' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.society.{home}"), name)

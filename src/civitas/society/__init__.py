"""Societies: where citizens live, and the randomness, time and facts that their blocks share."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Capacities": "places",
    "City": "city",
    "Draws": "draw",
    "Facts": "facts",
    "Grid": "grid",
    "Hours": "places",
    "Mode": "map",
    "Near": "places",
    "Neighbours": "places",
    "Network": "network",
    "Place": "map",
    "Places": "places",
    "Positions": "places",
    "Road": "map",
    "Route": "routes",
    "Routes": "places",
    "Weather": "facts",
    "needs": "places",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.society' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.society.{home}"), name)

"""The blocks of citizens: needs, plan, mobility, social life, economy, other acts, and feed."""

from __future__ import annotations

from typing import Any

from moothall.text import lazily

NAMES = ("Needs", "Plan", "Mobility", "Social", "Economy", "Other", "Feed")
"""The blocks of a citizen; of those that fit a situation equally, the first acts."""


def all_blocks() -> list[Any]:
    """Return one of each block with its default parameters, for one citizen."""
    return [__getattr__(f"{name}Block")() for name in NAMES]


__getattr__, __dir__ = lazily(__name__)
__all__ = ["all_blocks", *__getattr__("__all__")]

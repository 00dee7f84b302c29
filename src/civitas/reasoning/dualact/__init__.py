"""The dual act: one agent decides, one executes, until the work is accepted."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.reasoning.dualact.agent import DualActAgent as DualActAgent
    from civitas.reasoning.dualact.conclusions import Conclusion as Conclusion
    from civitas.reasoning.dualact.conclusions import DecisionAction as DecisionAction
    from civitas.reasoning.dualact.conclusions import HumanDecision as HumanDecision
    from civitas.reasoning.dualact.config import DualActConfig as DualActConfig
    from civitas.reasoning.dualact.progress import DualActReply as DualActReply

_HOME = {
    "Conclusion": "conclusions",
    "DecisionAction": "conclusions",
    "DualActAgent": "agent",
    "DualActConfig": "config",
    "DualActReply": "progress",
    "HumanDecision": "conclusions",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)

"""Conversations: several agents in turn, or at once, until it is over."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.reasoning.conversation.chosen_by import ChosenBy as ChosenBy
    from civitas.reasoning.conversation.conversation import Conversation as Conversation
    from civitas.reasoning.conversation.hand_over import HandOver as HandOver
    from civitas.reasoning.conversation.order import RoundRobin as RoundRobin
    from civitas.reasoning.conversation.state import ConversationState as ConversationState
    from civitas.reasoning.conversation.state import TurnEnded as TurnEnded
    from civitas.reasoning.conversation.state import TurnStarted as TurnStarted
    from civitas.reasoning.conversation.state import Utterance as Utterance
    from civitas.reasoning.conversation.termination import Condition as Condition
    from civitas.reasoning.conversation.termination import Elapsed as Elapsed
    from civitas.reasoning.conversation.termination import MaxTokens as MaxTokens
    from civitas.reasoning.conversation.termination import MaxTurns as MaxTurns
    from civitas.reasoning.conversation.termination import Said as Said
    from civitas.reasoning.conversation.termination import StoppedBy as StoppedBy

_HOME = {
    "ChosenBy": "chosen_by",
    "Condition": "termination",
    "Conversation": "conversation",
    "ConversationState": "state",
    "Elapsed": "termination",
    "HandOver": "hand_over",
    "MaxTokens": "termination",
    "MaxTurns": "termination",
    "RoundRobin": "order",
    "Said": "termination",
    "StoppedBy": "termination",
    "TurnEnded": "state",
    "TurnStarted": "state",
    "Utterance": "state",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)

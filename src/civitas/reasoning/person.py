"""The action by which a model asks a person."""

from __future__ import annotations

from typing import Any

from civitas.agent import Context

__all__ = ["ask_person"]


async def ask_person(question: str, context: Context[Any]) -> str:
    """Ask the person you work for, when only they can know or decide.

    Args:
        question: what you want to know, in one sentence

    Returns:
        what the person answers
    """
    return await context.ask_person(question)

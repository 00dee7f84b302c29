"""Goals: what an agent is trying to achieve, and how it should go about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """One aim of an agent, with instructions, rules or examples for reaching it.

    Attributes:
        priority: 1 is the most important
        name: what it is called
        description: what to achieve, and how
    """

    priority: int
    name: str
    description: str


def sort_goals(goals: Iterable[Goal]) -> list[Goal]:
    """Return the goals, the most important first; equal priorities keep their order."""
    return sorted(goals, key=lambda goal: goal.priority)


def format_goals(goals: Iterable[Goal]) -> str:
    """Return the goals as a part of a prompt; empty without goals."""
    parts = [f"{goal.name}:\n{goal.description}" for goal in sort_goals(goals)]
    if not parts:
        return ""
    return "\n\n".join(["Your goals, the most important first.", *parts])

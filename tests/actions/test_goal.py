"""Goals: what they hold, how they are sorted, how a prompt shows them."""

from __future__ import annotations

import dataclasses

import pytest

from moothall.actions.goal import Goal, format_goals, sort_goals


def test_goal_holds_what_it_was_given_and_stays_so() -> None:
    goal = Goal(priority=1, name="tidy", description="Keep it tidy.")
    assert (goal.priority, goal.name, goal.description) == (1, "tidy", "Keep it tidy.")
    assert goal == Goal(1, "tidy", "Keep it tidy.")
    with pytest.raises(dataclasses.FrozenInstanceError):
        goal.priority = 2  # type: ignore[misc]


def test_priority_1_comes_first_and_ties_stay_as_given() -> None:
    goals = [Goal(2, "b", ""), Goal(1, "z", ""), Goal(2, "a", ""), Goal(1, "y", "")]
    assert [goal.name for goal in sort_goals(goals)] == ["z", "y", "b", "a"]
    assert [goal.name for goal in goals] == ["b", "z", "a", "y"]


def test_goals_of_a_prompt_show_names_and_descriptions_in_order() -> None:
    text = format_goals([Goal(2, "brief", "Be brief."), Goal(1, "true", "Be right:\n1. check")])
    assert text.index("true:\nBe right:\n1. check") < text.index("brief:\nBe brief.")
    assert "most important first" in text


def test_goals_that_are_none_are_no_text() -> None:
    assert format_goals([]) == ""

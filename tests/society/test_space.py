"""A society is a space: the cases of `tests/conformance` that ask nothing and wait for no answer.

Left out are those whose agents use `request` or `ask`, which a society refuses by its nature, and
those of what comes between two turns of a loop: approvals out of order, who comes after a broadcast
was sent and before it is delivered. Steps follow each other here as fast as they can.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.conftest import Recorder
from conformance.conftest import log as log
from conformance.test_answers import server as server
from conformance.test_callbacks import agent as agent
from moothall.foundation.errors import SpaceClosed
from moothall.society import Society

CASES = {
    "test_access": ("test_broadcast_asks_each_approver_and_a_refusal_comes_back",),
    "test_answers": (
        "test_say_that_fails_sends_an_error",
        "test_answer_to_a_send_is_a_response_with_the_id",
        "test_answer_is_sent_for_every_value_but_none",
        "test_say_is_the_only_action_whose_value_is_said_back",
        "test_response_and_error_may_be_overridden",
        "test_say_by_a_send_is_answered_by_a_say",
    ),
    "test_broadcasts": (
        "test_message_to_oneself_is_no_broadcast",
        "test_broadcast_is_answered_by_each_receiver",
    ),
    "test_callbacks": (
        "test_after_action_is_told_of_a_value_of_none",
        "test_after_add_is_not_called_for_a_duplicate",
        "test_callbacks_of_an_agent_that_comes_again_are_called_again",
        "test_before_remove_exception_is_logged_and_the_agent_leaves",
        "test_callbacks_are_called_for_each_message_in_turn",
        "test_callbacks_are_called_for_the_special_actions_too",
        "test_closing_a_space_calls_before_remove",
    ),
    "test_current_message": (
        "test_after_add_and_before_remove_handle_no_message",
        "test_current_message_is_the_whole_message",
    ),
    "test_help": ("test_help_to_everyone_is_answered_by_each_agent",),
    "test_lifecycle": (
        "test_space_that_was_never_used_closes",
        "test_action_that_removes_its_own_agent_answers_a_send_too",
        "test_after_add_that_never_ends_can_be_ended",
    ),
    "test_messages": (
        "test_duplicate_agent_leaves_the_first_untouched",
        "test_add_returns_the_agent",
        "test_agent_that_was_removed_cannot_send_or_ask",
        "test_int_id_equals_its_decimal_string",
        "test_message_of_every_json_value_arrives_as_it_was",
        "test_receivers_of_a_broadcast_share_nothing",
    ),
    "test_observe": (
        "test_observer_sees_messages_as_they_are_and_their_answers",
        "test_observer_sees_what_is_said_back",
    ),
    "test_order": ("test_order_messages_of_a_plain_action_come_before_its_answer",),
}
"""The cases, by the file that has them."""

for _file, _names in CASES.items():
    _module = importlib.import_module(f"conformance.{_file}")
    globals().update({name: getattr(_module, name) for name in _names})


@pytest.fixture
def me(space: Any) -> Recorder:
    """Who sends, and keeps what it is told."""
    return space.add(Recorder("me", receive_own_broadcasts=False))  # type: ignore[no-any-return]


@pytest.fixture
def make_space() -> Iterator[Callable[..., Any]]:
    """Makes societies that live on until the test is over."""
    made: list[tuple[Society, threading.Thread]] = []

    def make(**options: Any) -> Society:
        society = Society(**options)

        async def live() -> None:
            try:
                while True:
                    await society.step()
            except SpaceClosed:
                return

        thread = threading.Thread(target=lambda: asyncio.run(live()))
        thread.start()
        made.append((society, thread))
        return society

    yield make
    for society, thread in made:
        society.close()
        thread.join()


@pytest.fixture
def space(make_space: Callable[..., Any]) -> Any:
    """A society without agents."""
    return make_space()

"""The messages of a space as pages get them: paired with their answers, and found by words."""

from __future__ import annotations

from moothall.studio.talk.space_messages import SpaceMessages


def test_messages_that_wait_are_not_said_to_be_answered() -> None:
    """In threads of their own they are answered in any order, and a `say` does not state which."""
    messages = SpaceMessages()

    def say(sender: str, to: str, text: str) -> int | None:
        action = {"name": "say", "args": {"content": text}}
        seen = messages.add({"from": sender, "to": to, "action": action}, 1.0)
        return None if seen.request is None else seen.request.number

    assert say("User", "Clerk", "one") is None
    assert say("Clerk", "User", "of one") == 1
    assert [say("User", "Clerk", each) for each in ("two", "three")] == [None, None]
    assert [say("Clerk", "User", each) for each in ("of three", "of two")] == [None, None]
    assert say("User", "Clerk", "four") is None
    assert say("Clerk", "User", "of four") == 7


def test_messages_are_found_by_sender_words_and_outcome_together() -> None:
    messages = SpaceMessages()
    for number, (sender, to, name, args) in enumerate(
        (
            ("User", "Big Clerk", "say", {"content": "my order"}),
            ("Big Clerk", "User", "say", {"content": "an order of a lamp"}),
            ("Big Clerk", "User", "say", {"content": "good day"}),
            ("User", "Adder", "divide", {"a": 1, "b": 0}),
            ("Adder", "User", "error", {"error": "it cannot", "original_message_id": "3"}),
        )
    ):
        sent = {"from": sender, "to": to, "id": str(number)}
        messages.add({**sent, "action": {"name": name, "args": args}}, 1.0)

    def found(filter: str) -> list[int]:
        return [each["number"] for each in messages.page(filter)["messages"]]

    assert found("from:Big Clerk order") == [2]
    assert found("from:big") == [2, 3]
    assert found("from:Big Clerk to:User day") == [3]
    assert found("failed") == [4, 5]
    assert found("from:User failed") == [4]
    assert found("from:Nobody order") == []

"""`history=`: the messages before a reply that the caller keeps in a database of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ChattyAI,
    ConfigError,
    Conversation,
    Journal,
    ModelError,
    ReActAgent,
    ScriptedModel,
    action,
)

HISTORY = [
    {"id": 1, "at": "2026-01-01", "role": "user", "content": "My name is Ada."},
    {"id": 2, "role": "assistant", "content": "Hello Ada."},
]


@action
def stock(item: str) -> int:
    """Say how many there are."""
    return 3


def roles(model: ScriptedModel, call: int = -1) -> list[tuple[str, Any]]:
    messages = model.received[call]
    return [(each["role"], each["content"]) for each in messages if each["role"] != "system"]


def test_history_stands_before_the_prompt_and_leaves_the_thread_alone() -> None:
    model = ScriptedModel(["Hi.", "Ada.", "I do not know."])
    agent = ReActAgent("a", model)
    agent.reply_sync("Good morning.")
    reply = agent.reply_sync("Who am I?", history=HISTORY)
    assert reply.text == "Ada."
    assert roles(model) == [
        ("user", "My name is Ada."),
        ("assistant", "Hello Ada."),
        ("user", "Who am I?"),
    ]
    agent.reply_sync("And now?")
    assert [content for _, content in roles(model)] == ["Good morning.", "Hi.", "And now?"]
    assert HISTORY[0]["id"] == 1  # it is the caller's


def test_history_is_a_row_of_any_iterable_and_may_be_empty() -> None:
    model = ScriptedModel(["1", "2"])
    agent = ReActAgent("a", model)
    agent.reply_sync("first")
    agent.reply_sync("second", history=iter(()))
    assert roles(model) == [("user", "second")]


@pytest.mark.parametrize(
    "call",
    (
        {"id": "c1", "name": "stock", "args": {"item": "pear"}},
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "stock", "arguments": '{"item": "pear"}'},
        },
    ),
    ids=("ours", "OpenAI's"),
)
def test_history_has_calls_and_their_results_in_our_form_or_openais(call: dict[str, Any]) -> None:
    model = ScriptedModel(["Three."])
    history = [
        {"role": "user", "content": "Pears?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "stock", "content": "3"},
    ]
    ReActAgent("a", model, actions=[stock]).reply_sync("So?", history=history)
    asked = next(each for each in model.received[0] if each.get("tool_calls"))
    assert asked["tool_calls"] == [{"id": "c1", "name": "stock", "args": {"item": "pear"}}]
    assert [content for _, content in roles(model)] == ["Pears?", "", "3", "So?"]


def test_history_is_kept_by_the_record_so_that_a_resumed_run_has_it(tmp_path: Path) -> None:
    def down(*_: Any) -> str:
        raise ModelError("the server is down")

    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", ScriptedModel([down]), journal=journal)
        assert agent.reply_sync("Who am I?", run_id="r", history=HISTORY).stop_reason == "error"
    model = ScriptedModel(lambda *_: "Ada.")
    with Journal(tmp_path / "runs.db") as journal:
        again = ReActAgent("a", model, journal=journal)
        assert again.reply_sync("Who am I?", run_id="r").text == "Ada."
    assert roles(model)[0] == ("user", "My name is Ada.")


@pytest.mark.parametrize(
    ("history", "told"),
    (
        ("hello", "history= must be a list of messages such as"),
        ({"role": "user"}, "history= must be a list"),
        (["hello"], r"history\[0\] must be a message such as"),
        (
            [*HISTORY, {"role": "boss", "content": "x"}],
            r"history\[2\]: role must be system, user, assistant or tool, got 'boss'$",
        ),
        ([{"role": "human", "content": "x"}], "got 'human': human is user here"),
        ([{"role": "Assistant", "content": "x"}], "got 'Assistant': Assistant is assistant here"),
        ([{"type": "human", "content": "x"}], r"history\[0\] must be a message such as"),
        ([{"role": "user", "content": None}], r"history\[0\]: content must be a text"),
        ([{"role": "user", "content": [object()]}], r"history\[0\] must be JSON data"),
        ([{"role": "tool", "content": "x"}], "tool_call_id must be the id of a call"),
        (
            [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}],
            "each of tool_calls must have id, name and args",
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}],
                }
            ],
            "each of tool_calls must have id, name and args",
        ),
    ),
)
def test_history_that_is_no_list_of_messages_is_refused(history: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ReActAgent("a", ScriptedModel(["x"])).reply_sync("x", history=history)


def test_history_is_for_an_agent_with_a_loop() -> None:
    group = Conversation(
        [ReActAgent("a", ScriptedModel(["x"])), ReActAgent("b", ScriptedModel([]))]
    )
    with pytest.raises(ConfigError, match="history= is for a ReActAgent"):
        group.reply_sync("x", history=HISTORY)
    assert not hasattr(ChattyAI("c", ScriptedModel([])), "reply")

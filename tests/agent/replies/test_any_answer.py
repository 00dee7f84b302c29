"""Whatever a model answers, there is a reply, memory stays whole, and the agent goes on."""

from __future__ import annotations

import re
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.replies.answers import Answers, say, use
from moothall.agents.loop.answer import MAX_NAME, ToolCall
from moothall.agents.loop.react import ReActAgent
from moothall.journal import Journal
from moothall.memory.bounded import TokenBoundedMemory
from moothall.models.protocol import Call, ModelReply, Usage

is_safe = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}").fullmatch
"""Whether every provider accepts this name for an action."""

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(["add", "give", "nothing", "", "a.b", "\ud800"]) | st.text(max_size=6)
arguments = (
    anything
    | st.text(max_size=12)
    | st.dictionaries(st.sampled_from(["a", "b", "value", "self"]), anything, max_size=3)
    | st.sampled_from(['{"a": 1, "b": 2}', '{"a": 1e400}', "[" * 3000, '{"value": null}'])
)
a_call = st.builds(Call, id=anything | st.text(max_size=4), name=names | anything, args=arguments)
an_answer = st.builds(
    ModelReply,
    text=st.text(st.characters(), max_size=12) | anything,
    calls=st.lists(a_call | anything, max_size=4).map(tuple) | anything,
    usage=st.just(Usage(1, 1)) | st.builds(Usage, anything, anything, anything) | anything,
    finish_reason=st.sampled_from(["stop", "calls", "length"]) | anything,
    reasoning=st.text(max_size=4) | anything,
    thinking=st.lists(st.just({"type": "thinking"}) | anything, max_size=2) | anything,
)


def add(a: int, b: int = 0) -> int:
    return a + b


async def give(value: Any) -> Any:
    return value


@settings(max_examples=3 * settings().max_examples)  # more with the long tests
@given(st.lists(an_answer | anything, min_size=1, max_size=6), st.sampled_from([60, 8192]))
def test_model_answer_of_any_kind_ends_in_a_reply(answers: list[Any], bound: int) -> None:
    # Exceptions and functions are what `Answers` acts on; all else it gives as it is.
    model = Answers(*answers)
    memory = TokenBoundedMemory(bound)
    thinker = ReActAgent("thinker", model, actions=[add, give], memory=memory, max_iterations=5)
    reply = thinker.reply_sync("go")
    assert reply.stop_reason in {"done", "max_iterations", "no_progress", "unreadable"}
    assert isinstance(reply.text, str)
    assert reply.text or reply.stop_reason != "done"
    assert reply.detail or reply.stop_reason in {"done", "terminal"}
    kept = memory.get_memories()
    wanted = [call["id"] for item in kept for call in item.get("tool_calls", ())]
    assert wanted == [item["tool_call_id"] for item in kept if item["role"] == "tool"]
    for item in kept:
        item["content"].encode()
        for call in item.get("tool_calls", ()):
            assert is_safe(call["name"])
            assert isinstance(call["args"], dict)
            assert isinstance(call["id"], str)
            assert call["id"]
    model.answers = [use("add", {"a": 1, "b": 2}), say("3")]
    assert thinker.reply_sync("1 + 2").text == "3"


@settings(max_examples=20)
@given(st.lists(an_answer | anything, min_size=1, max_size=4))
@example([ModelReply(None, (Call("1", "add", {"a": 1}),)), say("2")])  # type: ignore[arg-type]
@example([ModelReply("2", usage=None)])  # type: ignore[arg-type]
@example([ModelReply("2", usage=Usage(3, None))])  # type: ignore[arg-type]
@example([None, [Call("1", "add", None)], say("2")])  # type: ignore[arg-type]
@example([b""])  # what a step that returns bytes records is no answer
def test_model_answer_of_any_kind_is_recorded_so_that_the_run_can_be_read(
    answers: list[Any],
) -> None:
    with TemporaryDirectory() as folder, Journal(f"{folder}/runs.db") as journal:
        thinker = ReActAgent("thinker", Answers(*answers), actions=[add], journal=journal)
        thinker.max_iterations = 3
        reply = thinker.reply_sync("go", run_id="run")
        assert journal.replay("run").to_json() == reply.to_json()
        read = journal.fork("run", upto=_last_answer(journal))  # as after a crash there
        assert journal.in_doubt(read) == []
        again = ReActAgent("thinker", Answers(*answers), actions=[add], journal=journal)
        again.max_iterations = 3
        assert again.reply_sync("go", run_id=read).stop_reason == reply.stop_reason


def _last_answer(journal: Journal) -> int:
    """The number of the entry with the last answer of the model."""
    return max(
        each.sequence
        for each in journal.entries("run")
        if each.kind in ("ended", "failed") and "model" in each.data.get("about", {})
    )


@given(st.lists(st.text(st.characters(), min_size=1, max_size=90), unique=True, max_size=12))
def test_safe_names_are_safe_and_different(public: list[str]) -> None:
    found = ToolCall.safe_names(public)
    assert list(found) == public
    assert len(set(found.values())) == len(public)
    assert all(is_safe(safe) and len(safe) <= MAX_NAME for safe in found.values())
    assert all(found[name] == name for name in public if is_safe(name))
    assert ToolCall.safe_names(public[::-1]) == found


def test_action_name_made_to_look_like_another_ones_safe_name_is_told_apart() -> None:
    public = ["a b", "a.b"]
    taken = list(ToolCall.safe_names(public).values())
    found = ToolCall.safe_names([*public, *taken, "a b.", f"{taken[0]}."])
    assert len(set(found.values())) == 6
    assert [found[name] for name in taken] == taken
    assert all(map(is_safe, found.values()))

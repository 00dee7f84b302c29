"""Marks what a client sends back of a conversation, where it comes from outside."""

from __future__ import annotations

from typing import Any, Final

from moothall import ReActAgent
from moothall.actions.provenance.marks import Marks, stored
from moothall.actions.provenance.texts import Texts
from moothall.agents.loop.answer import as_action
from moothall.agents.loop.provenance import note_execution, sources_of_result, take_in, trace
from moothall.build import Threaded, ToolCall, with_sources

_EARLIER_ANSWER: Final = ("an earlier answer",)
"""Where from outside an agent's own words may come."""


def sent_back(messages: list[dict[str, Any]], agent: ReActAgent) -> list[dict[str, Any]]:
    """Return a conversation that a client sends back, with marks as the runs had that marked it.

    The client has the texts alone. What comes before them may be cut off: then it counts as read.
    """
    actions = {each.name: as_action(each) for each in agent.actions.get_actions()}
    answers = _EARLIER_ANSWER if _may_read(agent) else ()
    texts = Texts()
    if next((e["role"] for e in messages if e["role"] != "system"), "user") != "user":
        texts.note(answers)
    waiting: dict[str, list[ToolCall]] = {}  # by their ids, which may be used again
    marked: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant" and message["content"]:
            message = with_sources(message, answers)
        elif message["role"] == "tool" and waiting.get(message["tool_call_id"]):
            call = waiting[message["tool_call_id"]].pop(0)
            note_execution(call, texts)
            marks = Marks(sources_of_result(call, texts, {}), wrote=[*call.foreign])
            message = stored(message, marks)
        marked.append(message)
        take_in(texts, message, actions.get)
        for each in message.get("tool_calls", ()):
            action = actions.get(each["name"]) if texts.sources else None
            if action is not None and not action.outside:
                call = ToolCall(each["id"], each["name"], each["name"], each["args"], action)
                trace(call, texts)
                waiting.setdefault(call.id, []).append(call)
    return marked


def marked(messages: list[dict[str, Any]], agent: Any) -> list[dict[str, Any]]:
    """Return messages of a group; what its members said, if one may have read, is from outside."""
    if not _may_read(agent):
        return messages
    own = ("user", "system")
    return [e if e["role"] in own else with_sources(e, _EARLIER_ANSWER) for e in messages]


def _may_read(agent: Any) -> bool:
    """Whether an agent, or a member of a group, may have read something from outside."""
    if not isinstance(agent, ReActAgent):
        members = agent.member_agents if isinstance(agent, Threaded) else ()
        return not members or any(map(_may_read, members))
    actions = agent.actions.get_actions()
    return bool(agent.discover) or any(each.outside or each.guard == () for each in actions)

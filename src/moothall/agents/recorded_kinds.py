"""What the records of agents have, beside what every run has: checked where a journal is read."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from moothall.journal.kinds.run_kinds import RunKind
from moothall.models.protocol import Usage

_Usage: TypeAlias = Annotated[list[int], Field(min_length=2, max_length=len(Usage.__slots__))]


class _ReplyBlockData(TypedDict):
    type: str


_Content: TypeAlias = str | Annotated[list[_ReplyBlockData], Field(min_length=1)]
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=255)]


_REQUEST_FIELDS: Final[dict[str, Any]] = {
    "task": _Content,
    "given": _Content | None,
    "thread": _Id | None,
    "schema": dict[str, Any] | bool | None,
}
_ReplyRequestData: Any = TypedDict("_ReplyRequestData", _REQUEST_FIELDS)  # type: ignore[misc]


class _ReplyConclusionData(TypedDict):
    summary: str


class _ReplyDecisionData(TypedDict):
    action: str
    new_instruction: str | list[str]
    reasoning: str


class _ReplyMessageData(TypedDict):
    role: str


class _ReplyRoundsData(TypedDict):
    messages: NotRequired[list[_ReplyMessageData]]
    conclusions: NotRequired[list[_ReplyConclusionData]]
    decisions: NotRequired[list[_ReplyDecisionData]]


class _ReplyStateOfRoundsData(TypedDict):
    appended: _ReplyRoundsData


class _ReplyEndData(TypedDict):
    text: str
    detail: str
    value: Any


class _ReplyLoopEndData(_ReplyEndData):
    usage: _Usage


class _ReplyProgressData(TypedDict):
    conclusions: list[_ReplyConclusionData]
    decisions: list[_ReplyDecisionData]


class _ReplyDualActEndData(_ReplyEndData):
    progress: NotRequired[_ReplyProgressData]


class _ReplyConversationEndData(_ReplyEndData):
    saved: NotRequired[dict[str, Any]]


class _ReplyHeardByMembersData(TypedDict):
    content: Any
    known_to: Any
    outside: NotRequired[list[str]]
    told_keys: NotRequired[list[str]]


class _ReplyHeardByDualActData(TypedDict):
    content: str
    by_r: bool
    outside: NotRequired[list[str]]
    told_keys: NotRequired[list[str]]


def _speakers_in_words(data: dict[str, Any]) -> str:
    result = data.get("result")
    ids = result.get("ids") if isinstance(result, dict) and "about" not in data else None
    return f"next to speak: {', '.join(ids)}" if isinstance(ids, list) else ""


_END_FIELDS: Final = ("text", "value")

for _name in ("ReActAgent", "TheirAgent", "PydanticAIAgent", "AgentsSDKAgent", "LangGraphAgent"):
    RunKind(
        _name,
        {"begun": _ReplyRequestData, "over": _ReplyLoopEndData},
        (*_END_FIELDS, "usage"),
        "moothall.agents.loop.recording",
    ).register()
RunKind(
    "DualActAgent",
    {
        "begun": _ReplyRequestData,
        "over": _ReplyDualActEndData,
        "state": _ReplyStateOfRoundsData,
        "heard": _ReplyHeardByDualActData,
    },
    _END_FIELDS,
    "moothall.agents.dualact.dual_act_state",
).register()
RunKind(
    "Conversation",
    {
        "begun": _ReplyRequestData,
        "over": _ReplyConversationEndData,
        "heard": _ReplyHeardByMembersData,
    },
    _END_FIELDS,
    "moothall.agents.conversation.conversation_record",
    words={"ended": _speakers_in_words},
    nouns={"transcript": "utterance"},
).register()
RunKind(
    "DurableFunction",
    {"begun": _ReplyRequestData, "over": _ReplyEndData},
    _END_FIELDS,
    "moothall.agents.durable.function",
).register()

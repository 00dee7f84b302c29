"""What the server of a model refused, and what later prompts therefore leave out.

A memory only grows. So a refusal is one message more, at the end of what was refused, and its mark
says what to leave out. People read that message; prompts lack it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from moothall.actions.provenance.marks import MARKS_FIELD
from moothall.models.blocks import left_out_note

Cut: TypeAlias = Literal["unanswered", "older", "parts", "results", "earlier", "question"]
"""What is left out, from the least on: what a client sends again that had no answer, or perhaps one
that lacked it; these and the images and other parts before the last answer, or the parts of results
since then; all these and the texts of these results; what was before a second question that is
refused; what the user said since the last answer, or since the last `question`."""

LEFT_OUT: Final[dict[Cut, str]] = {
    "unanswered": "earlier questions without an answer, and the client's own earlier results",
    "older": "the images and files before the last answer",
    "parts": "the images and files that actions returned",
    "results": "what actions returned",
    "earlier": "what was said before the question",
    "question": "the question",
}
"""The cuts in words."""

REFUSED_TEXT: Final = "(no answer: the server of the model refused this)"
_RESULT_NOTE: Final = "[A result that the server of the model refused: do not guess what it said.]"
_QUESTION_NOTE: Final = (
    "[The server of the model refused what stood here: do not guess what it was.]"
)
_ORDER: Final[tuple[str, ...]] = (*LEFT_OUT,)
_OF_MEMORY: Final = "kept"
"""The mark of a message of the user's role that the memory wrote itself, such as a summary."""

_Placed: TypeAlias = tuple[int, dict[str, Any]]


def refusal_message() -> dict[str, Any]:
    """Return the message that stands at the end of what was refused."""
    return {"role": "assistant", "content": REFUSED_TEXT}


def has_refusals(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the server of the model has refused some of these messages."""
    return any(map(_cut_of, messages))


def as_kept(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that the memory wrote itself, which no refusal of a question takes away."""
    marks = message.get(MARKS_FIELD) or {}
    return {**message, MARKS_FIELD: {**marks, "refused": [_OF_MEMORY]}}


def with_unanswered(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a client sends with a mark at what a server may have refused before.

    A client that keeps the conversation sends it with every later question: a question before the
    last that had no answer, and a result of its own tool, without which an answer may have come.
    """
    marked, is_followed, has_answer = [*messages], False, False
    for index in range(len(marked) - 1, -1, -1):
        message = marked[index]
        role = message["role"]
        if (role == "user" and is_followed) or (role == "tool" and has_answer):
            marks = message.get(MARKS_FIELD) or {}
            marked[index] = {**message, MARKS_FIELD: {**marks, "refused": ["unanswered"]}}
        is_followed = role == "user" or (is_followed and role == "system")
        has_answer = has_answer or role == "assistant"
    return marked


def next_cut(messages: Sequence[dict[str, Any]], *, is_fork: bool = False) -> Cut:
    """Return what to leave out next, now that the server has refused a prompt of these messages.

    It follows from the messages alone: no word of the error is read. What was before the first
    question of a fork is somebody else's conversation, which its server may never have taken.
    """
    rest = _Rest(messages)
    last_order = _ORDER.index(rest.cut) if rest.cut else -1
    results = [message for _, message in rest.since_answer if message.get("role") == "tool"]
    if last_order < 0 and any(_is_unanswered(message) for _, message in rest.messages):
        return "unanswered"
    if last_order < 1 and any(_has_parts(message) for _, message in rest.before_answer):
        return "older"
    if last_order < 2 and any(map(_has_parts, results)):
        return "parts"
    if last_order < 3 and results:
        return "results"
    if last_order < 4 and (rest.was_question or is_fork) and rest.has_earlier:
        return "earlier"
    return "question"


def allowed(messages: Sequence[dict[str, Any]]) -> Iterator[_Placed]:
    """Yield what a model may be shown of a memory's messages, each with its place among them."""
    rest = _Rest(messages)
    rest.apply()
    yield from rest.messages


def as_allowed(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a memory without what the server of the model refused."""
    return [message for _, message in allowed(messages)]


class _Rest:
    """What is left of a conversation.

    Of the refusals between two answers only the last one counts: a cut that did not help takes
    nothing away. But each `question` counts.
    """

    def __init__(self, messages: Iterable[dict[str, Any]]) -> None:
        self.messages: list[_Placed] = []
        self.cut: str = ""  # the last since the last answer or question
        self.was_question = False  # whether a question was refused since the last answer
        # Where the last answer ends, and where what came since it or the last question begins.
        self._answer_end = self._question_start = 0
        for place, message in enumerate(messages):
            cut = _cut_of(message)
            if cut == "question":
                self._drop_question()
            elif cut and message.get("role") == "assistant":
                self.cut = cut
            else:
                is_answer = message.get("role") == "assistant"
                if is_answer:
                    self.apply()
                self.messages.append((place, message))
                if is_answer or cut == _OF_MEMORY:
                    self._answer_end = self._question_start = len(self.messages)
                    self.cut, self.was_question = "", False

    @property
    def before_answer(self) -> list[_Placed]:
        return self.messages[: self._answer_end]

    @property
    def since_answer(self) -> list[_Placed]:
        return self.messages[self._answer_end :]

    @property
    def has_earlier(self) -> bool:
        earlier = self.messages[: self._question_start]
        return any(message.get("role") != "system" for _, message in earlier)

    def _drop_question(self) -> None:
        start = self._question_start
        new = self.messages[start:]
        self.messages[start:] = [each for each in new if each[1].get("role") != "user"]
        self._question_start, self.cut, self.was_question = len(self.messages), "", True

    def apply(self) -> None:
        """Leave out what the last refusal says."""
        messages, answer_end = self.messages, self._answer_end
        if self.cut == "earlier":
            start = self._question_start
            first = [each for each in messages[:start] if each[1].get("role") == "system"]
            messages[:start] = first
            self._answer_end = self._question_start = len(first)
            return
        for index, (place, message) in enumerate(messages) if self.cut else ():
            if _is_unanswered(message):
                note = _QUESTION_NOTE if message["role"] == "user" else _RESULT_NOTE
                messages[index] = place, {**message, "content": note}
        for index in range(answer_end) if self.cut in ("older", "results") else ():
            messages[index] = messages[index][0], _without_parts(messages[index][1])
        for index in range(answer_end, len(messages)) if self.cut in ("parts", "results") else ():
            place, message = messages[index]
            if message.get("role") == "tool":
                is_whole = self.cut == "results"
                cut_message = {**message, "content": _RESULT_NOTE} if is_whole else message
                messages[index] = place, _without_parts(cut_message)


def _cut_of(message: Mapping[str, Any]) -> str:
    marks = message.get(MARKS_FIELD)
    cuts = marks.get("refused") if isinstance(marks, dict) else None
    cut = cuts[0] if isinstance(cuts, list) and cuts else ""
    return cut if cut in _ORDER or cut == _OF_MEMORY else ""


def _is_unanswered(message: Mapping[str, Any]) -> bool:
    return message.get("role") != "assistant" and _cut_of(message) == "unanswered"


def _is_part(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") != "text"


def _has_parts(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(map(_is_part, content))


def _without_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with notes for its images and other parts: the same one, if it has none."""
    if not _has_parts(message):
        return message
    notes = [left_out_note(each) if _is_part(each) else each for each in message["content"]]
    texts = [each.get("text") if isinstance(each, dict) else None for each in notes]
    # As one text, if it is one: a server that refuses images may take no list at all.
    is_text = all(isinstance(each, str) for each in texts)
    return {**message, "content": "\n\n".join(map(str, texts)) if is_text else notes}

"""What a server wants of a conversation that another provider began, as its refusals say it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from moothall.models.protocol import without_seen

NO_ANSWER: Final = "(no answer)"
_ID = r"(?:tool_?calls?\S*id|call_id|tool_?use\S{0,3}id)"
# Mistral's; OpenAI's and others', which state a bound; Anthropic's and Bedrock's behind others.
_EXACT = re.compile(r"tool call id.{0,80}length of (\d+)", re.I | re.S)
_MOST = re.compile(_ID + r".{0,200}?length (?:less than or equal to )?(\d+)", re.I | re.S)
# Gemini's, of a schema of parameters.
_AT = r" at '?[^':]*(?:tools|function_declarations|schema)[^':]*"
_KEYWORD = re.compile(r"unknown name .{0,2}?([\w$]+)\W{1,3}" + _AT + "'?: cannot find", re.I)
_WORDS = {
    "letters": _ID + ".{0,200}?pattern",
    "answers": "role .?user.? after role .?tool",
    # Of chat templates behind vLLM, llama.cpp and others.
    "alternates": "roles must alternate|consecutive (?:user|messages)",
    "system_first": "system message must be|(?:only one|multiple) system message",
    "no_system": "system (?:role|messages?) (?:is |are )?not support|not support system|got system",
    "nameless": (
        r"messages\b.{0,40}\bname\b.{0,40}(?:extra|permitted|unsupported|allowed)"
        r"|(?:extra|forbidden).{0,60}messages\b.{0,40}\bname\b|unknown name .{0,2}name\b"
    ),
    "signature": "missing.{0,40}thought_?signature",
    "reasons": (
        "reasoning_content.{0,80}(?:must be|missing|required)|missing.{0,40}reasoning_content"
        "|thinking.{0,80}must be passed back"
    ),
    "blind": (
        r"(?:image|vision|multimodal|file)\S*.{0,60}(?:not (?:supported|allowed|accept)"
        r"|unsupported)|(?:not|n't) (?:support|accept|have|take).{0,40}"
        r"(?:image|vision|multimodal|file)|no endpoints.{0,40}image"
    ),
    "one_type": r"unknown name .{0,2}?type\W{1,3}" + _AT + "'?: proto field is not",
    "texts": "invalid value" + _AT + r"\benum\b",
}
_ASKS = {what: re.compile(words, re.I | re.S) for what, words in _WORDS.items()}
"""What a refusal may ask for: one type for each value and choices of texts alone, of schemas; ids
of letters alone; reasoning with each answer; no images; the rest, of messages."""
# Google's word for a call that another model made.
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_ANSWER: dict[str, Any] = {"role": "assistant", "content": NO_ANSWER}


class Adapting:
    """Changes conversations into what one server takes.

    Args:
        id_length: how long the id of a call must be, in letters and digits; 0 if any will do
        answer_before_user: whether an answer must come between a result and a message of the user
    """

    def __init__(self, id_length: int = 0, answer_before_user: bool = False) -> None:
        self._exact, self._most = id_length, 0
        self._asked = frozenset(("answers",) if answer_before_user else ())
        self._without: frozenset[str] = frozenset()  # keywords of schemas
        self.version: int = 0

    @property
    def reasons(self) -> bool:
        """Whether each answer must have reasoning."""
        return "reasons" in self._asked

    def refused(self, said: str) -> bool:
        """Note what a refusal asks for; return whether it asks for something new."""
        before = {**vars(self)}
        if found := _EXACT.search(said):
            self._exact = min(int(found[1]), 64)
        elif found := _MOST.search(said):
            self._most = min(int(found[1]), 64)
        asks = {what for what, words in _ASKS.items() if words.search(said)}
        # Templates without a system message say the same of it.
        asks |= {"no_system"} if "alternates" in asks & self._asked else set()
        asks |= {"alternates"} if "no_system" in asks else set()
        asks |= {"system_first"} if "alternates" in asks else set()
        self._asked |= asks
        self._without |= {*_KEYWORD.findall(said)}
        if vars(self) == before:
            return False
        self.version += 1
        return True

    def messages(self, messages: list[Any]) -> list[Any]:
        """Return our messages with the ids, the roles and the order that the server takes."""
        if not (self.version or self._exact or "answers" in self._asked):
            return messages
        if not all(isinstance(each, Mapping) for each in messages):
            return messages  # whoever reads them says so
        if "blind" in self._asked:
            messages = without_seen(messages)
        made = [self._with_ids(each) for each in messages]
        if "system_first" in self._asked:
            made.sort(key=lambda each: each.get("role") != "system")
        ordered: list[Any] = []
        for each in made:
            role = each.get("role")
            if role == "system" and "no_system" in self._asked:
                each["role"] = role = "user"
            last = ordered[-1] if ordered else {}
            if "answers" in self._asked and role == "user" and last.get("role") == "tool":
                ordered.append(_ANSWER)
            merges = "alternates" in self._asked or (
                "system_first" in self._asked and role == "system"
            )
            if merges and last.get("role") == role != "tool" and not last.get("tool_calls"):
                ordered[-1] = {**last, **each, "content": _both(last, each)}
            else:
                ordered.append(each)
        return ordered

    def _with_ids(self, message: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(message)
        if calls := made.get("tool_calls"):
            made["tool_calls"] = [{**call, "id": self._id(call.get("id"))} for call in calls]
        if "tool_call_id" in made:
            made["tool_call_id"] = self._id(made["tool_call_id"])
        if "nameless" in self._asked:
            made.pop("name", None)
        return made

    def _id(self, given: Any) -> str:
        id = str(given or "")
        size = self._exact or self._most or 40
        fits = len(id) == size if self._exact else not self._most or len(id) <= size
        plain = re.sub("[_-]", "", id) if not self._exact else id
        if fits and (
            not (self._exact or "letters" in self._asked) or (plain.isascii() and plain.isalnum())
        ):
            return id
        return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:size]

    def complete(self, made: list[dict[str, Any]]) -> None:
        """Add what the server wants with each answer to messages in the chat interface's form."""
        for each in made:
            calls = each.get("tool_calls") or ()
            if (
                "signature" in self._asked
                and calls
                and not any("extra_content" in call for call in calls)
            ):
                calls[0]["extra_content"] = _UNSIGNED
            if self.reasons and each["role"] == "assistant" and not each.get("reasoning_content"):
                each["reasoning_content"] = NO_ANSWER

    def schema(self, given: Any, root: Any = None) -> Any:
        """Return a schema of parameters without the keywords that the server does not know."""
        is_whole = not (self._without or self._asked & {"one_type", "texts"})
        if is_whole or not isinstance(given, Mapping | list):
            return given
        root = given if root is None else root
        if isinstance(given, list):
            return [self.schema(each, root) for each in given]
        ref = given.get("$ref")
        if "$ref" in self._without and isinstance(ref, str) and ref.startswith("#/$defs/"):
            inner = (root.get("$defs") or {}).get(ref.removeprefix("#/$defs/"))
            # One that has itself within it cannot be written out.
            known = {**root, "$defs": {**root["$defs"], ref.removeprefix("#/$defs/"): {}}}
            return self.schema(inner or {}, known)
        if "const" in given and "const" in self._without:
            given = {"enum": [given["const"]], **given}
        kinds, choices = given.get("type"), given.get("enum")
        if "one_type" in self._asked and isinstance(kinds, list):
            some = [each for each in kinds if each != "null"]
            given = {**given, "type": some[0] if some else "string"}
            given |= {"nullable": True} if len(some) < len(kinds) else {}
        if (
            "texts" in self._asked
            and isinstance(choices, list)
            and not all(isinstance(c, str) for c in choices)
        ):
            told = f"One of {', '.join(map(str, choices))}."
            about = " ".join(filter(None, (given.get("description"), told)))
            given = {**given, "description": about}
            del given["enum"]
        return {
            name: {key: self.schema(each, root) for key, each in value.items()}
            if name in ("properties", "$defs") and isinstance(value, Mapping)
            else value
            if name in ("enum", "const", "default", "examples")
            else self.schema(value, root)
            for name, value in given.items()
            if name not in self._without
        }


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Any:
    """Return the content of two messages of one role in a row."""
    contents = first.get("content") or "", second.get("content") or ""
    if all(isinstance(each, str) for each in contents):
        return "\n\n".join(filter(None, contents))
    blocks = [
        [{"type": "text", "text": each}] if isinstance(each, str) else each
        for each in contents
        if each
    ]
    return [block for each in blocks for block in each]

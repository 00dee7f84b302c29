"""What a server wants of a conversation that another provider began.

All servers get each call once, under an id of its own, with its result right after it. What only
some want is learned from their refusals.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from moothall.models.blocks import BLOCKS, without_seen
from moothall.models.remote.chat_format import seen_after_results

NO_ANSWER: Final = "(no answer)"
_NO_RESULT = "(no result)"
_FIRST_MESSAGE: dict[str, Any] = {"role": "user", "content": "(the conversation so far)"}
_CONTINUE_MESSAGE: dict[str, Any] = {"role": "user", "content": "Go on."}
_PLAIN_IDS = "[A-Za-z0-9]{9}"
"""The form of Mistral's ids of calls, which every server takes."""
# In the text of a server that refuses the ids of calls.
_ID_FAULT = re.compile(
    r"(?:tool|function|call)\S{0,40}?[ ._']{0,2}id\b.{0,300}?"
    r"(?:length|too long|pattern|regular expression|character|must be|format|invalid)",
    re.I | re.S,
)
# What a server calls blocks that it does not take: "image", "file".
_SEEN_NOUNS = "|".join(
    ("vision", "multimodal", *(b.label.rpartition(" ")[2] for b in BLOCKS.values() if b.data))
)
# Gemini's, of a schema of parameters.
_PLACE = r" at '?[^':]*(?:tools|function_declarations|schema)[^':]*"
_KEYWORD = re.compile(r"unknown name .{0,2}?([\w$]+)\W{1,3}" + _PLACE + "'?: cannot find", re.I)
_WORDS = {
    "answers": "role .?user.? after role .?tool",
    # Of Gemini, Bedrock, Perplexity, newer Claude, and chat templates behind vLLM and others.
    "turns": (
        r"\balternat|(?:consecutive|successive) (?:user|assistant|messages)|in a row"
        r"|after a user turn|start with a user|first message.{0,40}\buser"
        r"|should be \[(?:user|assistant)|last (?:role|message).{0,40}\buser|end with a user"
        "|(?:message|response) prefill|assistant messages at the end"
    ),
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
        rf"(?:{_SEEN_NOUNS})\S*.{{0,60}}(?:not (?:supported|allowed|accept)|unsupported)"
        rf"|(?:not|n't) (?:support|accept|have|take).{{0,40}}(?:{_SEEN_NOUNS})"
        "|no endpoints.{0,40}image"
    ),
    "one_type": r"unknown name .{0,2}?type\W{1,3}" + _PLACE + "'?: proto field is not",
    "texts": "invalid value" + _PLACE + r"\benum\b",
}
_DEMANDS = {demand: re.compile(words, re.I | re.S) for demand, words in _WORDS.items()}
"""What a refusal may ask for: one type for each value and choices of texts alone, of schemas;
reasoning with each answer; no images; the rest, of messages."""
# Google's word for a call that another model made.
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_ANSWER_MESSAGE: dict[str, Any] = {"role": "assistant", "content": NO_ANSWER}


class Adaptations:
    """Changes conversations into what one server takes.

    Args:
        ids: a pattern of the ids of calls that the server takes; any if left out
        answer_before_user: whether an answer must come between a result and a message of the user
    """

    def __init__(self, ids: str = "", answer_before_user: bool = False) -> None:
        self._ids = ids or ".+"
        self._demands = frozenset(("answers",) if answer_before_user else ())
        self._refused_keywords: frozenset[str] = frozenset()  # keywords of schemas
        self.version: int = 0

    @property
    def reasons(self) -> bool:
        """Whether each answer must have reasoning."""
        return "reasons" in self._demands

    def learn_from_refusal(self, error_text: str) -> bool:
        """Note what a refusal asks for; return whether it asks for something new."""
        state_before = {**vars(self)}
        if _ID_FAULT.search(error_text):
            self._ids = _PLAIN_IDS
        demands = {demand for demand, words in _DEMANDS.items() if words.search(error_text)}
        # Templates without a system message say the same of it.
        demands |= {"no_system"} if "turns" in demands & self._demands else set()
        demands |= {"turns"} if "no_system" in demands else set()
        demands |= {"answers", "system_first"} if "turns" in demands else set()
        self._demands |= demands
        self._refused_keywords |= {*_KEYWORD.findall(error_text)}
        if vars(self) == state_before:
            return False
        self.version += 1
        return True

    def adapt_messages(self, messages: list[Any], seen_after: bool = False) -> list[Any]:
        """Return our messages with the ids, the roles and the order that the server takes.

        Args:
            messages: our messages
            seen_after: whether the images of results stand after these
        """
        if not all(map(_is_message, messages)):
            return messages  # whoever reads them says so
        if "blind" in self._demands:
            messages = without_seen(messages)
        if seen_after:
            messages = seen_after_results(messages)
        messages = _with_paired_results(messages, re.compile(self._ids, re.S))
        if not self._demands:
            return messages
        copies = [dict(each) for each in messages]
        if "nameless" in self._demands:
            for each in copies:
                each.pop("name", None)
        if "system_first" in self._demands:
            copies.sort(key=lambda each: each.get("role") != "system")
        ordered: list[Any] = []
        for each in copies:
            role = each.get("role")
            if role == "system" and "no_system" in self._demands:
                each["role"] = role = "user"
            last = ordered[-1] if ordered else {}
            if "answers" in self._demands and role == "user" and last.get("role") == "tool":
                ordered.append(_ANSWER_MESSAGE)
            merges = "turns" in self._demands or (
                "system_first" in self._demands and role == "system"
            )
            if merges and last.get("role") == role != "tool" and not last.get("tool_calls"):
                ordered[-1] = {**last, **each, "content": _merged_content(last, each)}
            else:
                ordered.append(each)
        return _framed_by_user(ordered) if "turns" in self._demands else ordered

    def add_wanted_fields(self, messages: list[dict[str, Any]]) -> None:
        """Add what the server wants with each answer to messages in the chat interface's form."""
        for each in messages:
            calls = each.get("tool_calls") or ()
            if (
                "signature" in self._demands
                and calls
                and not any("extra_content" in call for call in calls)
            ):
                calls[0]["extra_content"] = _NO_SIGNATURE
            if self.reasons and each["role"] == "assistant" and not each.get("reasoning_content"):
                each["reasoning_content"] = NO_ANSWER

    def adapt_schema(self, schema: Any, root: Any = None) -> Any:
        """Return a schema of parameters without the keywords that the server does not know."""
        is_unchanged = not (self._refused_keywords or self._demands & {"one_type", "texts"})
        if is_unchanged or not isinstance(schema, Mapping | list):
            return schema
        root = schema if root is None else root
        if isinstance(schema, list):
            return [self.adapt_schema(each, root) for each in schema]
        ref = schema.get("$ref")
        if "$ref" in self._refused_keywords and isinstance(ref, str) and ref.startswith("#/$defs/"):
            inner = (root.get("$defs") or {}).get(ref.removeprefix("#/$defs/"))
            # One that has itself within it cannot be written out.
            cut_root = {**root, "$defs": {**root["$defs"], ref.removeprefix("#/$defs/"): {}}}
            return self.adapt_schema(inner or {}, cut_root)
        if "const" in schema and "const" in self._refused_keywords:
            schema = {"enum": [schema["const"]], **schema}
        kinds, choices = schema.get("type"), schema.get("enum")
        if "one_type" in self._demands and isinstance(kinds, list):
            types = [each for each in kinds if each != "null"]
            schema = {**schema, "type": types[0] if types else "string"}
            schema |= {"nullable": True} if len(types) < len(kinds) else {}
        if (
            "texts" in self._demands
            and isinstance(choices, list)
            and not all(isinstance(c, str) for c in choices)
        ):
            note = f"One of {', '.join(map(str, choices))}."
            description = " ".join(filter(None, (schema.get("description"), note)))
            schema = {**schema, "description": description}
            del schema["enum"]
        return {
            name: {key: self.adapt_schema(each, root) for key, each in value.items()}
            if name in ("properties", "$defs") and isinstance(value, Mapping)
            else value
            if name in ("enum", "const", "default", "examples")
            else self.adapt_schema(value, root)
            for name, value in schema.items()
            if name not in self._refused_keywords
        }


def _is_message(message: Any) -> bool:
    calls = message.get("tool_calls") or () if isinstance(message, Mapping) else None
    return isinstance(calls, list | tuple) and all(isinstance(each, Mapping) for each in calls)


def _with_paired_results(messages: list[Any], ids: re.Pattern[str]) -> list[Any]:
    """Return messages in which each call is followed by its result, under an id of its own.

    The results of several calls have the order of these.
    """
    paired: list[Any] = []
    used = set[str]()
    missing: list[tuple[Any, int]] = []  # of the results that are missing so far, by id
    for each in messages:
        if calls := each.get("tool_calls"):
            own_calls = [{**call, "id": _unique_id(call.get("id"), ids, used)} for call in calls]
            paired.append({**each, "tool_calls": own_calls})
            missing = [(call.get("id"), len(paired) + n) for n, call in enumerate(calls)]
            paired += [
                {"role": "tool", "tool_call_id": call["id"], "content": _NO_RESULT}
                for call in own_calls
            ]
        elif each.get("role") == "tool":
            id = each.get("tool_call_id")
            if matches := [entry for entry in missing if entry[0] == id]:
                place = matches[0][1]
                missing.remove(matches[0])
                paired[place] = {**each, "tool_call_id": paired[place]["tool_call_id"]}
            else:  # the memory has lost its call
                own_id = _unique_id(id, ids, used)
                lost_call: dict[str, Any] = {
                    "id": own_id,
                    "name": each.get("name") or "action",
                    "args": {},
                }
                paired.append({"role": "assistant", "content": "", "tool_calls": [lost_call]})
                paired.append({**each, "tool_call_id": own_id})
        else:
            paired.append(each)
    return paired


def _unique_id(call_id: Any, ids: re.Pattern[str], used: set[str]) -> str:
    """Return the id of a call if it has the right form and is not used yet, else one like that."""
    id = original = str(call_id or "")
    number = 0
    while id in used or not ids.fullmatch(id):
        text = f"{original} {number}" if number else original
        id = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:9]
        number += 1
    used.add(id)
    return id


def _framed_by_user(ordered: list[Any]) -> list[Any]:
    """Return messages of which the first, after the system's, and the last are the user's."""
    start = next((n for n, each in enumerate(ordered) if each.get("role") != "system"), None)
    if start is None or ordered[start]["role"] == "assistant":
        ordered.insert(len(ordered) if start is None else start, _FIRST_MESSAGE)
    return [*ordered, _CONTINUE_MESSAGE] if ordered[-1].get("role") == "assistant" else ordered


def _merged_content(first: Mapping[str, Any], second: Mapping[str, Any]) -> Any:
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

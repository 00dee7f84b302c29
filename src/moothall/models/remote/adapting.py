"""What a server wants of a conversation that another provider began.

All servers get each call once, under an id of its own, with its result right after it. What only
some want is learned from their refusals.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Final

from moothall.models.chat_answer import KEPT_FIELDS
from moothall.models.providers import Provider
from moothall.models.refusal import Refusal
from moothall.models.remote.chat_format import seen_after_results

logger: logging.Logger = logging.getLogger("moothall.models")

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
# In that of one that refuses a field which it, or another, gave with an answer: Cerebras, Groq.
_FIELD_FAULT = re.compile(
    rf"\b({'|'.join(KEPT_FIELDS)})\b.{{0,40}}?(?:unsupported|not (?:supported|permitted|allowed)"
    "|extra|forbidden|unknown|unrecogni[sz]ed|unexpected)",
    re.I | re.S,
)
# A field of what a message says or shows, of which no demand is.
_CONTENT_PLACE = re.compile(r"(?:\A|[.\]])(?:content|text|url|image_url|prompt)\W*\d*\Z", re.I)
# Gemini's, of a schema of parameters.
_PLACE = r" at '?[^':]*(?:tools|function_declarations|schema)[^':]*"
_KEYWORD = re.compile(r"unknown name .{0,2}?([\w$]+)\W{1,3}" + _PLACE + "'?: cannot find", re.I)
_WORDS = {
    "answers": "role .?user.? after role .?tool",
    # Of Gemini, Bedrock, Perplexity, newer Claude, and chat templates behind vLLM and others.
    "turns": (
        r"must alternate|(?:consecutive|successive) (?:user|assistant|messages)|in a row"
        r"|after a user turn|start with a user|first message.{0,40}\buser"
        r"|should be \[(?:user|assistant)|last (?:role|message).{0,40}\buser|end with a user"
        "|(?:message|response) prefill|assistant messages at the end"
    ),
    "system_first": "system message must be|(?:only one|multiple) system message",
    "no_system": "system (?:role|messages?) (?:is |are )?not support|not support system|got system",
    "signature": "missing.{0,40}thought_?signature",
    "reasons": (
        "reasoning_content.{0,80}(?:must be|missing|required)|missing.{0,40}reasoning_content"
        "|thinking.{0,80}must be passed back"
    ),
    "one_type": r"unknown name .{0,2}?type\W{1,3}" + _PLACE + "'?: proto field is not",
    "texts": "invalid value" + _PLACE + r"\benum\b",
}
_DEMANDS = {demand: re.compile(words, re.I | re.S) for demand, words in _WORDS.items()}
"""What a refusal may ask for: one type for each value and choices of texts alone, of schemas;
reasoning with each answer; the rest, of messages."""
_NAMELESS = re.compile(r"messages\.\d+\.(?:\w+\.)?name: .*(?:extra|forbidden|not permitted)", re.I)
"""What servers of FastAPI say of the name of a speaker, and where."""
_OF_OTHERS: Final = frozenset(("signature", "reasons"))
"""Demands that some providers have, and their gateways."""
_IN_WORDS: Final = {
    "answers": "an answer between a result and a message of the user",
    "turns": "turns of user and assistant that alternate",
    "system_first": "one message of the system, the first",
    "no_system": "the system's messages as the user's",
    "nameless": "messages without names of speakers",
    "signature": "Google's mark on calls of other models",
    "reasons": "reasoning with each answer",
    "one_type": "one type for each value of a schema",
    "texts": "choices of a schema as texts",
}
# Google's word for a call that another model made.
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_ANSWER_MESSAGE: dict[str, Any] = {"role": "assistant", "content": NO_ANSWER}


class Adaptations:
    """Changes conversations into what one server takes.

    Args:
        ids: a pattern of the ids of calls that the server takes; any if left out
        answer_before_user: whether an answer must come between a result and a message of the user
        may_want: which of the demands `reasons` and `signature` it may have

    Attributes:
        version: how often something was learned
        learned: what was learned, in words
    """

    def __init__(
        self,
        ids: str = "",
        answer_before_user: bool = False,
        may_want: Iterable[str] = _OF_OTHERS,
    ) -> None:
        self._ids = ids or ".+"
        self._demands = frozenset(("answers",) if answer_before_user else ())
        self._never_wanted = _OF_OTHERS.difference(may_want)
        self._refused_keywords: frozenset[str] = frozenset()  # keywords of schemas
        self.refused_fields: frozenset[str] = frozenset()  # that came with earlier answers
        self.version: int = 0
        self.learned: tuple[str, ...] = ()

    @classmethod
    def of_provider(cls, provider: Provider) -> Adaptations:
        """Return what the server of a provider gets from the first request on."""
        return cls(provider.call_ids, provider.answer_before_user, provider.may_want)

    @property
    def reasons(self) -> bool:
        """Whether each answer must have reasoning."""
        return "reasons" in self._demands

    def make_trial(self, refusal: Refusal, content: bytes) -> Adaptations | None:
        """Return a copy that does what a refusal asks for; None if it asks for nothing new.

        The fields that it names come first, then its words.
        """
        faults = [each for each in refusal.faults if not _CONTENT_PLACE.search(each.place)]
        if refusal.faults and not faults:
            return None
        trial, fault_text = copy(self), "\n".join(map(str, faults))
        if _NAMELESS.search(fault_text):
            trial._demands |= {"nameless"}
        for text in (fault_text, refusal.text):
            trial._take_demands(text, content)
            if trial._state() != self._state():
                return trial
        return None

    def _take_demands(self, text: str, content: bytes) -> None:
        if _ID_FAULT.search(text):
            self._ids = _PLAIN_IDS
        demands = {demand for demand, words in _DEMANDS.items() if words.search(text)}
        demands -= self._never_wanted
        # Templates without a system message say the same of it.
        demands |= {"no_system"} if "turns" in demands & self._demands else set()
        demands |= {"turns"} if "no_system" in demands else set()
        demands |= {"answers", "system_first"} if "turns" in demands else set()
        self._demands |= demands
        self._refused_keywords |= {*_KEYWORD.findall(text)}
        fields = (each.lower() for each in _FIELD_FAULT.findall(text))
        self.refused_fields |= {each for each in fields if f'"{each}": '.encode() in content}

    def _state(self) -> tuple[Any, ...]:
        return self._ids, self._demands, self._refused_keywords, self.refused_fields

    def keep(self, trial: Adaptations, name: str, other_changes: Iterable[str] = ()) -> None:
        """Take over what a trial does, since it helped; say so once for each thing, in the log.

        Args:
            trial: what did what a refusal asks for, in a request that was answered
            name: the model's
            other_changes: what that request had beside it, in words
        """
        known_words = {*self.in_words, *self.learned}
        if trial._ids == _PLAIN_IDS:
            self._ids = _PLAIN_IDS
        self._demands |= trial._demands
        self._refused_keywords |= trial._refused_keywords
        self.refused_fields |= trial.refused_fields
        self.version += 1
        if new := [each for each in (*self.in_words, *other_changes) if each not in known_words]:
            self.learned += (*new,)
            logger.warning(
                "%s: the server refused a request and took it with %s; later requests have that "
                "from the start",
                name,
                "; ".join(new),
            )

    @property
    def in_words(self) -> list[str]:
        """What the server gets otherwise than others, in words."""
        words = ["ids of calls of nine letters and digits"] * (self._ids == _PLAIN_IDS)
        words += [text for demand, text in _IN_WORDS.items() if demand in self._demands]
        words += [f"schemas without {each!r}" for each in sorted(self._refused_keywords)]
        return words + [f"no {each!r} of earlier answers" for each in sorted(self.refused_fields)]

    def adapt_messages(self, messages: list[Any], seen_after: bool = False) -> list[Any]:
        """Return our messages with the ids, the roles and the order that the server takes.

        Args:
            messages: our messages
            seen_after: whether the images of results stand after these
        """
        if not all(map(_is_message, messages)):
            return messages  # whoever reads them says so
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

"""Asking a model for a value: what is done with an answer that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from moothall.budget.bill import CALL_CONTEXT, CallContext
from moothall.foundation.errors import DefinitionError, InvalidArguments
from moothall.foundation.jsonvalue import UnreadableText, readable
from moothall.foundation.text import copied_example, cut
from moothall.foundation.threads import context_value
from moothall.models.base import answer_of

T = TypeVar("T")
Messages: TypeAlias = list[dict[str, Any]]
Ask: TypeAlias = Callable[[Messages, int], Awaitable[Any]]
"""Answers messages with a text, or with what has a `text`; tries are numbered from 1."""

TRIES: Final = 2
"""How often a model is asked in all, while its answers cannot be used."""
_MAX_SHOWN_CHARS: Final = 4000
"""How many characters of its answer, and of the schema, a model is shown again."""


class Unusable(UnreadableText):
    """No answer of a model could be used; the message says what the last one did wrong."""

    def __init__(self, fault: str, text: str) -> None:
        super().__init__(fault, text)  # what a pickle makes it of
        self.text = text
        """The last answer."""

    def __str__(self) -> str:
        return str(self.args[0])


async def ask_value(
    model: Any,
    prompt: Messages,
    schema: dict[str, Any] | None,
    read: Callable[[str], T],
    tries: int = TRIES,
    *,
    form: str | None = None,
    examples: str = "",
) -> T:
    """Return what `read` makes of a model's answer.

    If the answer is empty, calls an action, repeats an example, or `read` raises `UnreadableText`
    (its message continues "Your answer"), `InvalidArguments` or `DefinitionError`, the model is
    shown its answer with the fault and asked again. What the model itself raises is raised at once.

    Args:
        model: a model; or an `Ask`, which may record and charge the call
        prompt: the messages
        schema: the JSON schema of the answer; None for a text
        read: returns the value of an answer's text
        tries: how often the model is asked in all
        form: how to answer, as the model is told with the fault; by default by the schema
        examples: the text of the prompt that has examples, whose texts are no answer

    Raises:
        Unusable: no answer could be used
    """
    ask: Ask = _ask_for(model, schema) if hasattr(model, "complete") else model
    if form is None and schema is not None:
        schema_text = readable(cut(json.dumps(schema, ensure_ascii=False), _MAX_SHOWN_CHARS))
        form = f"Answer with JSON alone that follows this schema: {schema_text}"
    fault = text = ""
    for number in range(1, tries + 1):
        reply = await run_as_attempt(number, ask(prompt, number))
        text = _final_text(reply)
        try:
            if getattr(reply, "calls", None):
                raise UnreadableText("calls an action")
            if not text.strip():
                raise UnreadableText("is empty")
            if copied := copied_example(text, examples):
                raise UnreadableText(f"repeats an example, which is of others: {copied}")
            return read(text)
        except UnreadableText as error:
            fault = str(error).rstrip(".")
        except (InvalidArguments, DefinitionError) as error:
            fault = f"cannot be used: {error}".rstrip(".")
        prompt = [
            *prompt,
            {"role": "assistant", "content": cut(text, _MAX_SHOWN_CHARS) or "(no answer)"},
            {"role": "user", "content": f"Your answer {fault}. {form or ''}".rstrip()},
        ]
    raise Unusable(fault, text)


def _final_text(reply: Any) -> str:
    """Return the text of an answer without what the model commented before it."""
    text, meta = getattr(reply, "text", reply), getattr(reply, "meta", None)
    if not isinstance(text, str):
        return ""
    comment = meta.get("commentary") if isinstance(meta, Mapping) else None
    return readable(text.removeprefix(comment).lstrip() if isinstance(comment, str) else text)


async def run_as_attempt(number: int, work: Awaitable[T]) -> T:
    """Run some work as a try of this number; return its result."""
    outer_call = CALL_CONTEXT.get()
    with context_value(CALL_CONTEXT, CallContext(outer_call.step, outer_call.bill, number)):
        return await work


def _ask_for(model: Any, schema: dict[str, Any] | None) -> Ask:
    async def ask(prompt: Messages, _: int) -> Any:
        return await answer_of(model, prompt, schema=schema)

    return ask

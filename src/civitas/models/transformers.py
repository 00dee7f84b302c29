"""Models of the Hugging Face hub as they are, on PyTorch."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civitas.arguments import names_checked
from civitas.errors import DefinitionError, MissingExtra, ModelError
from civitas.jsonvalue import unfenced
from civitas.models import choice
from civitas.models.base import Closing
from civitas.models.plain_chat import add_system, calls_in, has_result, plain_chat
from civitas.models.protocol import (
    Call,
    ModelReply,
    ReasoningPiece,
    StreamPart,
    TextPiece,
    Usage,
)
from civitas.models.torch_runtime import Generated, TorchRuntime

if TYPE_CHECKING:
    from civitas.action import Action

_HUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_THINK, _THOUGHT = "<think>", "</think>"


@names_checked
class TransformersModel(Closing):
    """A model of the `transformers` library in this process.

    It loads when it is first used, once for all who use it, in a thread. One answer is computed at
    a time; other callers wait their turn, in the order in which they came. Cancelled, one that
    waits leaves, and one that is computed ends with its next token (a prompt that is being read,
    when it has been read). A prompt too long for the context raises `ContextOverflow`.

    The tokenizer's chat template makes the prompt. What is special to the tokenizer (such as
    `<|im_end|>`) gets a space put into it in a message, so that no text can pass for another
    speaker's. What stands in `<think>…</think>` before an answer is its reasoning.

    Nothing holds it to a form: actions and a schema are asked for in the prompt. An answer that
    chooses one of the actions is its call; any other is text, as it is. `LocalModel` is held to
    both by a grammar.

    Weights are read from safetensors files only, and code of a repository is never run.

    Args:
        name_or_path: `ORG/NAME` on the hub, fetched when first used; or a folder, as a path that
            begins with `/`, `./`, `../` or `~`, or as a `Path`
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time
        seed: of the draws, which come from PyTorch's one generator: answers are the same again
            while nothing else in the process draws from it
        device: where it computes, such as `cuda:1`; a GPU of NVIDIA's if there is one, else the
            processor
        context_tokens: how much a prompt and its answer may take together; the model's own limit
            holds if that is lower

    Use it as a context manager, or `close()` it, to give the memory back.

    Raises:
        MissingExtra: the extra `transformers` is not installed
        DefinitionError: an argument is not what it should be
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        device: str | None = None,
        context_tokens: int | None = None,
    ) -> None:
        for what, value in (("max_tokens", max_tokens), ("context_tokens", context_tokens)):
            if value is None and what == "context_tokens":
                continue
            if type(value) is not int or value < 1:
                raise DefinitionError(
                    f"TransformersModel: {what}= is a positive integer, not {value!r}"
                )
        if type(temperature) not in (int, float) or not 0 <= temperature <= 10:
            raise DefinitionError(
                f"TransformersModel: temperature= is a number from 0 to 10, not {temperature!r}"
            )
        if seed is not None and type(seed) is not int:
            raise DefinitionError(f"TransformersModel: seed= is an integer, not {seed!r}")
        if device is not None and (not isinstance(device, str) or not device):
            raise DefinitionError(f"TransformersModel: device= is a text, not {device!r}")
        source = _source(name_or_path)
        self.name = f"hf:{name_or_path}"
        self.max_tokens = max_tokens
        MissingExtra.unless("TransformersModel", "transformers", "torch", "transformers")
        self._runtime = TorchRuntime(
            source, self.name, device, context_tokens, max_tokens, temperature, seed
        )
        # Runs at the latest when the interpreter exits, while its thread can still be waited for.
        self._finalizer = weakref.finalize(self, self._runtime.close, tell=False)

    def __repr__(self) -> str:
        return f"TransformersModel({self.name.removeprefix('hf:')!r})"

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None if that is not known yet."""
        return self._runtime.context_tokens

    @context_tokens.setter
    def context_tokens(self, value: int | None) -> None:
        raise AttributeError("context_tokens is given to TransformersModel(context_tokens=…)")

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """End what is being generated and give the memory back; then it answers no more."""
        if self._finalizer.detach():
            self._runtime.close()

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Answer a conversation.

        Raises:
            ContextOverflow: the prompt does not fit the context
            WeightsError: the weights are missing, or of a kind that is not loaded
            RemoteForbidden: `CIVITAS_OFFLINE=1`, and it has to be fetched
            ModelError: the messages are not what they should be, or it was closed
        """
        reply = ModelReply()
        async for part in self.stream(messages, actions, schema):
            if isinstance(part, ModelReply):
                reply = part
        return reply

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[StreamPart]:
        """Answer a conversation piece by piece; the whole answer comes last.

        Given actions, the text comes in one piece: until it has ended it may be a call.

        Raises:
            ModelError: as for `complete`
        """
        if not messages:
            raise ModelError(f"{self.name}: there are no messages to answer")

        def chat(marks: re.Pattern[str]) -> list[dict[str, str]]:
            turns = plain_chat(messages, self.name, marks, choice.INSTRUCTION if actions else "")
            if actions:
                add_system(turns, choice.choice_text(actions, may_answer=has_result(messages)))
            if schema is not None:
                form = json.dumps(schema, ensure_ascii=False)
                add_system(turns, f"Answer with JSON of this schema and nothing else: {form}")
            return turns

        chat(_NO_MARKS)  # what is no message is said before anything is loaded
        answer = _Answer()
        generated = self._runtime.generate(chat)
        try:
            async for piece in generated:
                if isinstance(piece, Generated):
                    for part in answer.take("", last=True):
                        if not actions:
                            yield part
                    usage = Usage(piece.input_tokens, piece.output_tokens)
                    reply = answer.reply(usage, piece.finish_reason)
                    if actions:
                        reply = _chosen(reply, calls_in(messages))
                        if reply.text:
                            yield TextPiece(reply.text)
                    yield reply
                    return
                for part in answer.take(piece):
                    if not actions or isinstance(part, ReasoningPiece):
                        yield part
        finally:
            await generated.aclose()  # type: ignore[attr-defined]


class _Answer:
    """Tells what a model thinks from what it answers, piece by piece."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._held = ""
        self._state = "begin"

    def take(self, piece: str, last: bool = False) -> list[TextPiece | ReasoningPiece]:
        self._held += piece
        parts: list[TextPiece | ReasoningPiece] = []
        if self._state == "begin":
            begun = self._held.lstrip()
            if begun.startswith(_THINK):
                self._held = begun.removeprefix(_THINK)
                self._state = "thinking"
            elif last or not _THINK.startswith(begun):
                self._state = "answering"
            else:
                return parts
        if self._state == "thinking":
            thought, mark, rest = self._held.partition(_THOUGHT)
            if not mark and not last:
                # The end of it may be the beginning of the mark.
                keep = next(
                    n for n in range(len(_THOUGHT), -1, -1) if thought.endswith(_THOUGHT[:n])
                )
                thought, rest = thought[: len(thought) - keep], thought[len(thought) - keep :]
            self._held = rest
            if thought:
                self._reasoning.append(thought)
                parts.append(ReasoningPiece(thought))
            if mark:
                self._state = "after"
        if self._state == "after":
            self._held = self._held.lstrip()
            if self._held:
                self._state = "answering"
        if self._state == "answering" and self._held:
            self._text.append(self._held)
            parts.append(TextPiece(self._held))
            self._held = ""
        return parts

    def reply(self, usage: Usage, finish_reason: str) -> ModelReply:
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        return ModelReply(text, (), usage, finish_reason, reasoning)


def _chosen(reply: ModelReply, calls_before: int) -> ModelReply:
    """The reply as the call or answer that its text is; any other text is left as it is."""
    try:
        chosen = choice.read_choice(unfenced(reply.text))
    except (ValueError, RecursionError):
        return reply
    if isinstance(chosen, str):
        return ModelReply(chosen, (), reply.usage, reply.finish_reason, reply.reasoning)
    # A number, not a random id: the same conversation gives the same calls.
    call = Call(f"call_{calls_before + 1}", *chosen)
    return ModelReply("", (call,), reply.usage, "calls", reply.reasoning)


_NO_MARKS = re.compile(r"(?!)")


def _source(given: Any) -> Path | str:
    if isinstance(given, Path):
        return given.expanduser()
    if isinstance(given, str) and given.startswith(("/", "./", "../", "~")):
        return Path(os.path.expanduser(given))
    if isinstance(given, str) and _HUB.fullmatch(given) and ".." not in given:
        return given
    raise DefinitionError(
        f"TransformersModel: {given!r:.200} is neither ORG/NAME of the hub nor a path that begins "
        "with /, ./, ../ or ~ (a GGUF file is gguf:PATH)"
    )

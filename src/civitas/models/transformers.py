"""Models of the Hugging Face hub as they are, on PyTorch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from civitas.arguments import check_count, names_checked
from civitas.errors import DefinitionError, MissingExtra
from civitas.jsonvalue import unfenced
from civitas.models import choice
from civitas.models.base import Request
from civitas.models.engine import Generated, InProcess
from civitas.models.plain_chat import add_system, has_result, plain_chat
from civitas.models.protocol import ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from civitas.models.settings import check_sampling
from civitas.models.torch_engine import TorchEngine

_HUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_THINK, _THOUGHT = "<think>", "</think>"


@names_checked
class TransformersModel(InProcess):
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
        check_count("TransformersModel", "max_tokens", max_tokens)
        check_count("TransformersModel", "context_tokens", context_tokens, optional=True)
        check_sampling("TransformersModel", temperature, seed)
        if device is not None and (not isinstance(device, str) or not device):
            raise DefinitionError(f"TransformersModel: device= must be text, got {device!r}")
        source = _source(name_or_path)
        self.name = f"hf:{name_or_path}"
        self.max_tokens = max_tokens
        MissingExtra.unless("TransformersModel", "transformers", "torch", "transformers")
        self._torch = TorchEngine(
            source, self.name, device, context_tokens, max_tokens, temperature, seed
        )
        self._hold(self._torch)

    def __repr__(self) -> str:
        return f"TransformersModel({self.name.removeprefix('hf:')!r})"

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None if that is not known yet."""
        return self._torch.context_tokens

    @context_tokens.setter
    def context_tokens(self, value: int | None) -> None:
        raise AttributeError("context_tokens is given to TransformersModel(context_tokens=…)")

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        messages, actions, schema, _ = request

        def chat(marks: re.Pattern[str]) -> list[dict[str, str]]:
            turns = plain_chat(messages, self.name, marks, choice.INSTRUCTION if actions else "")
            if actions:
                add_system(turns, choice.choice_text(actions, may_answer=has_result(messages)))
            if schema is not None:
                form = json.dumps(schema, ensure_ascii=False)
                add_system(turns, f"Answer with JSON of this schema and nothing else: {form}")
            return turns

        chat(_NO_MARKS)  # what is no message is said before anything is loaded
        written = thought = text = ""
        async with aclosing(self._engine.generate(chat)) as parts:
            async for part in parts:
                ended = isinstance(part, Generated)
                written += "" if isinstance(part, Generated) else part.text
                before, (thought, text) = (thought, text), _thought_and_text(written, ended)
                if more := thought[len(before[0]) :]:
                    yield ReasoningPiece(more)
                if not actions and (more := text[len(before[1]) :]):
                    yield TextPiece(more)
        assert isinstance(part, Generated)  # it comes last, or an error
        usage = Usage(part.input_tokens, part.output_tokens)
        reply = ModelReply(text, (), usage, part.finish_reason, thought)
        if actions:
            # Until it has ended it may be a call.
            with suppress(ValueError, RecursionError):  # any other text is left as it is
                reply = choice.chosen(replace(reply, text=unfenced(text)), messages)
            if reply.text:
                yield TextPiece(reply.text)
        yield reply


def _thought_and_text(written: str, ended: bool) -> tuple[str, str]:
    """What a model thought and what it answered, of what it has written so far."""
    begun = written.lstrip()
    if not begun.startswith(_THINK):
        may_begin = not ended and _THINK.startswith(begun)
        return "", "" if may_begin else written
    thought, mark, text = begun.removeprefix(_THINK).partition(_THOUGHT)
    if not mark and not ended:
        # The end of it may be the beginning of the mark.
        cut = next(n for n in range(len(_THOUGHT), -1, -1) if thought.endswith(_THOUGHT[:n]))
        thought = thought[: len(thought) - cut]
    return thought, text.lstrip()


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

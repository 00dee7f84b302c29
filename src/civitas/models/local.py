"""A language model in this process, without a key or a network."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from civitas.arguments import check_count, names_checked
from civitas.errors import DefinitionError, MissingExtra, ModelError
from civitas.models import choice, weights
from civitas.models.base import Request
from civitas.models.engine import Generated, InProcess
from civitas.models.llama import BATCH_TOKENS, ChatEngine, Llama
from civitas.models.plain_chat import add_system, has_result, plain_chat
from civitas.models.protocol import ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from civitas.models.settings import check_sampling

# What marks the turns of a chat in the formats of llama.cpp's models. In a text it is text: a file
# or a web page must not be able to end its own turn and speak as the system.
_TURN_MARK = re.compile(r"<(?:\|[^<>|\s]{1,64}\|>|(?:start|end)_of_turn>)")

_MOST_THREADS = 512  # of llama.cpp itself
# The smallest models say one word or line over and over once they have begun to. llama.cpp's DRY
# sampler makes what would repeat less likely; what does not repeat stays as it is. Not for calls,
# schemas and larger models: JSON and code repeat themselves rightly.
_AGAINST_LOOPS = {"dry_multiplier": 0.8}

_LARGEST_CONTEXT = 1 << 20
"""More tokens than any of these models can be given."""


@names_checked
class LocalModel(InProcess):
    """llama.cpp in this process, with any GGUF file.

    It loads when it is first used. Callers at the same time share its slots and are computed in one
    batch; those beyond the slots wait their turn. Actions are chosen, and schemas kept to, under a
    grammar. An answer that reaches `max_tokens`, or the end of the context, says so by its finish
    reason `length`, and half a call is none; a prompt too long for the context raises
    `ContextOverflow`. Given actions, it calls one of them; when the last of the conversation is
    what came of an action, it may also answer. Cancelled, a generation ends with its next token (a
    prompt that is being read, with its next batch).

    The marks of a chat format (such as `<|im_end|>`) in a message get a space put into them, so
    that no text can pass for another speaker's.

    Args:
        path: the weights; left out, the default ones, which `civitas models fetch` brings
        name: what people call it
        context_tokens: how much a prompt and its answer may take together; the model's own limit
            holds if that is lower
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time
        seed: of the draws at a temperature above 0
        slots: how many prompts are computed at once, up to 128; each holds `context_tokens`
        threads: how many of the processor's cores to use, up to 512; llama.cpp chooses if left out
        deterministic: the same answer every time, on one machine: one slot and no prompt cache,
            because what else is in a batch changes the rounding

    Use it as a context manager, or `close()` it, to give the memory back; one left open is closed
    when it is collected and does not hold up the interpreter's exit.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        name: str | None = None,
        context_tokens: int = 4096,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        slots: int = 2,
        threads: int | None = None,
        deterministic: bool = False,
    ) -> None:
        check_count("LocalModel", "context_tokens", context_tokens)
        check_count("LocalModel", "max_tokens", max_tokens)
        check_count("LocalModel", "slots", slots, most=BATCH_TOKENS)  # with fewer tokens it aborts
        check_count("LocalModel", "threads", threads, most=_MOST_THREADS, optional=True)
        check_sampling("LocalModel", temperature, seed)
        if path is not None and not isinstance(path, str | Path):
            raise DefinitionError(f"LocalModel: path= must be the path of a file, got {path!r}")
        if path is None:
            self.path = weights.DEFAULT.require()
        else:
            self.path = Path(path).expanduser()
        own = weights.context_length(self.path)
        MissingExtra.unless("a model inside this process", "local", "xllamacpp")
        context_tokens = min(context_tokens, own or _LARGEST_CONTEXT, _LARGEST_CONTEXT)
        self.name = name or (
            f"local:{weights.DEFAULT.name}" if path is None else f"gguf:{self.path.name}"
        )
        self.context_tokens: int | None = context_tokens
        self.max_tokens = max_tokens
        self._sampling: dict[str, Any] = {
            "temperature": temperature,
            "cache_prompt": not deterministic,
        }
        if seed is not None or deterministic:
            self._sampling["seed"] = seed or 0
        slots = 1 if deterministic else slots
        self._llama = Llama(
            self.path,
            slots=slots,
            context_tokens=context_tokens,
            batch_tokens=BATCH_TOKENS,
            cores=threads,
        )
        self._hold(ChatEngine(self._llama, self.name, slots))

    @property
    def loaded(self) -> bool:
        """Whether it is in memory; it is loaded when it is first used."""
        return self._llama.loaded

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        written: dict[type, str] = {TextPiece: "", ReasoningPiece: ""}
        answer = choice.AnswerText()
        said = False
        async with aclosing(self._engine.generate(self._body(request))) as parts:
            async for part in parts:
                if isinstance(part, Generated):
                    reply = self._reply(part, written, request)
                    continue
                written[type(part)] += part.text
                if request.actions and isinstance(part, TextPiece):
                    part = TextPiece(answer.add(part.text))
                if part.text:
                    said = said or isinstance(part, TextPiece)
                    yield part
        # An answer that is held to a schema is read as a whole before it is text.
        if not said and reply.text:
            yield TextPiece(reply.text)
        yield reply

    def _body(self, request: Request) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What the engine is asked, and the schema that it holds the text to."""
        messages, actions, held_to, _ = request
        chat = plain_chat(messages, self.name, _TURN_MARK, choice.INSTRUCTION if actions else "")
        if actions:
            may_answer = has_result(messages)
            held_to = choice.choice_schema(
                actions, answer=(held_to or {"type": "string"}) if may_answer else None
            )
            add_system(chat, choice.choice_text(actions, may_answer=may_answer))
        body = {"messages": chat, "max_tokens": self.max_tokens, **self._sampling}
        if held_to is None and self.path == weights.DEFAULT.path:
            body |= _AGAINST_LOOPS
        return body, held_to

    def _reply(self, done: Generated, written: dict[type, str], request: Request) -> ModelReply:
        text, reasoning = written[TextPiece], written[ReasoningPiece]
        reply = ModelReply(
            text, (), Usage(done.input_tokens, done.output_tokens), done.finish_reason, reasoning
        )
        if not request.actions:
            return reply
        if done.finish_reason == "length":
            # The text of an answer as far as it came; half a call is nothing that can be read.
            return replace(reply, text=choice.AnswerText().add(text))
        try:
            return choice.chosen(reply, request.messages)
        except ValueError as error:
            raise ModelError(f"{self.name}: chose nothing readable: {error}") from error

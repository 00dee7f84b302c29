"""A language model in this process, without a key or a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall.arguments import (
    check_boolean,
    check_integer,
    check_text,
    is_path,
    names_checked,
    none_of,
)
from moothall.errors import ConfigError, MissingExtra, ModelError
from moothall.models import choice, weights
from moothall.models.base import Answering, Request
from moothall.models.engine import InProcess
from moothall.models.llama import BATCH_TOKENS, ChatEngine
from moothall.models.plain_chat import TURN_MARK, has_result, plain_chat
from moothall.models.protocol import ModelReply, StreamPart, TextPiece
from moothall.models.settings import check_sampling

if TYPE_CHECKING:
    from moothall.action import Action

_MOST_THREADS = 512  # llama.cpp's own limit
# The smallest models may repeat one word or line without end. llama.cpp's DRY sampler makes
# repetition less likely, and changes nothing else. It is not used for calls, schemas and larger
# models: JSON and code repeat themselves rightly.
_AGAINST_LOOPS = {"dry_multiplier": 0.8}

_LARGEST_CONTEXT = 1 << 20
"""More tokens than any of these models accepts."""

_OPTIONS: Final = (
    *("top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold"),
    *("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"),
    *("dynatemp_range", "dynatemp_exponent", "mirostat", "mirostat_tau", "mirostat_eta"),
)
"""The settings of llama.cpp's choice of a token; it ignores others without a word."""


def _check_options(options: Any) -> None:
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"LocalModel: options= must be a dict, got {options!r:.80}")
    for name, value in (options or {}).items():
        if name not in _OPTIONS:
            raise none_of("LocalModel: a name in options=", _OPTIONS, name)
        if type(value) not in (int, float) or not isfinite(value):
            raise ConfigError(f"LocalModel: options= {name!r} must be a number, got {value!r:.80}")


@names_checked
class LocalModel(InProcess, Answering):
    """llama.cpp in this process, with any GGUF file.

    It loads on first use. Concurrent callers share its slots and are computed in one batch; further
    callers wait for a slot. A grammar makes it choose an action, or follow a schema. An answer that
    reaches `max_tokens`, or the end of the context, has the finish reason `length`, and a partial
    call is dropped; a prompt too long for the context raises `ContextOverflow`. Given actions, it
    calls one of them; if the last message is an action's result, it may also answer. If cancelled,
    a generation ends with its next token (a prompt that is being read, with its next batch).

    A space is put into marks of a chat format (such as `<|im_end|>`) in a message, so that no text
    can pass for another speaker's.

    Args:
        path: the weights; default: the ones that `moothall models fetch` fetches
        name: what people call it
        context_tokens: how much a prompt and its answer may take together; the model's own limit
            holds if that is lower
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time
        seed: the random seed, used at a temperature above 0
        options: more settings of llama.cpp's choice of a token, such as `{"top_p": 0.9}`
        slots: how many prompts are computed at once, up to 128; each holds `context_tokens`
        threads: how many of the processor's cores to use, up to 512; llama.cpp chooses if left out
        deterministic: the same answer every time, on one machine: one slot and no prompt cache,
            because the other prompts in a batch change the rounding

    Use it as a context manager, or `close()` it, to free the memory; one left open is closed by the
    garbage collector and does not delay the interpreter's exit.

    Raises:
        MissingExtra: the extra `local` is not installed
        WeightsError: the weights are missing or damaged
        DefinitionError: an argument has a wrong type or value
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
        options: Mapping[str, float] | None = None,
    ) -> None:
        check_integer("LocalModel: context_tokens=", context_tokens)
        check_integer("LocalModel: max_tokens=", max_tokens)
        check_integer("LocalModel: slots=", slots, high=BATCH_TOKENS)  # with more slots it aborts
        check_integer("LocalModel: threads=", threads, high=_MOST_THREADS, optional=True)
        check_sampling("LocalModel", temperature, seed)
        _check_options(options)
        check_text("LocalModel: name=", name, optional=True)
        check_boolean("LocalModel: deterministic=", deterministic)
        if path is not None and not is_path(path):
            raise ConfigError(f"LocalModel: path= must be the path of a file, got {path!r}")
        self.path: Path = weights.path_or_default(path)
        own = weights.context_length(self.path)
        MissingExtra.unless("a model inside this process", "local", "xllamacpp")
        context_tokens = min(context_tokens, own or _LARGEST_CONTEXT, _LARGEST_CONTEXT)
        self.name: str = name or (
            f"local:{weights.DEFAULT.name}" if path is None else f"gguf:{self.path.name}"
        )
        self.context_tokens: int | None = context_tokens
        self.max_tokens = max_tokens
        self._sampling: dict[str, Any] = {
            **(options or {}),
            "temperature": temperature,
            "cache_prompt": not deterministic,
        }
        if seed is not None or deterministic:
            self._sampling["seed"] = seed or 0
        self._llama = ChatEngine(
            self.name,
            self.path,
            slots=1 if deterministic else slots,
            context_tokens=context_tokens,
            cores=threads,
        )
        self._hold(self._llama)

    @property
    def loaded(self) -> bool:
        """Whether it is in memory; it loads on first use."""
        return self._llama.loaded

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        answer = choice.AnswerText()
        async with aclosing(self._engine.generate(self._body(request))) as parts:
            async for part in parts:
                if request.actions and isinstance(part, TextPiece):
                    part = TextPiece(answer.add(part.text))
                    if not part.text:
                        continue
                elif request.actions and isinstance(part, ModelReply):
                    part = self._chosen(part, request.messages, answer.text)
                    # An answer that follows a schema is parsed as a whole before it is text.
                    if rest := part.text[len(answer.text) :]:
                        yield TextPiece(rest)
                yield part

    async def _prepare(self, actions: list[Action] | None) -> None:
        body, schema = self._body(Request([{"role": "user", "content": "Hello"}], actions))
        async with aclosing(self._engine.generate(({**body, "max_tokens": 1}, schema))) as parts:
            async for _ in parts:
                pass

    def _body(self, request: Request) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the request for the engine, and the schema that the text must follow."""
        messages, actions, held_to, _ = request
        chat = plain_chat(messages, self.name, TURN_MARK, actions)
        if actions:
            answer = (held_to or {"type": "string"}) if has_result(messages) else None
            held_to = choice.choice_schema(actions, answer=answer)
        body = {"messages": chat, "max_tokens": self.max_tokens, **self._sampling}
        if held_to is None and self.path == weights.DEFAULT.path:
            body |= _AGAINST_LOOPS
        return body, held_to

    def _chosen(self, reply: ModelReply, messages: list[dict[str, Any]], said: str) -> ModelReply:
        if reply.finish_reason == "length":
            return replace(reply, text=said)  # a partial call cannot be read
        try:
            return choice.chosen(reply, messages)
        except ValueError as error:
            raise ModelError(f"{self.name}: chose nothing readable: {error}") from error

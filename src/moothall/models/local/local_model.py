"""A language model in this process, without a key or a network."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.budget.bill import CALL_CONTEXT
from moothall.foundation.arguments import (
    check_boolean,
    check_integer,
    check_path,
    check_text,
    names_checked,
    unknown_value_error,
)
from moothall.foundation.errors import ConfigError, MissingExtra, ModelError
from moothall.models.base import AnsweringModel, ModelRequest
from moothall.models.blocks import has_texts, with_texts
from moothall.models.calling.choice import OneCall, after_a_thought
from moothall.models.calling.listed import SeveralCalls
from moothall.models.echo import without_own_words
from moothall.models.local import weights
from moothall.models.local.engine import InProcess
from moothall.models.local.llama import BATCH_TOKENS, ChatEngine
from moothall.models.plain_chat import add_schema, has_result, native_chat, plain_chat
from moothall.models.protocol import NO_USAGE, ModelReply, StreamPart, TextPiece, calls_in
from moothall.models.refusal import Refusal
from moothall.models.remote.adapting import Adaptations
from moothall.models.remote.chat_format import chat_messages, tools
from moothall.models.remote.schema_form import as_text, in_form
from moothall.models.settings import check_sampling

if TYPE_CHECKING:
    from moothall.actions import Action

_OWN_TEMPLATE: Final = "own"
_MAX_THREADS = 512  # llama.cpp's own limit
# The smallest models may repeat one word or line without end. llama.cpp's DRY sampler makes
# repetition less likely, and changes nothing else. It is not used for calls, schemas and larger
# models: JSON and code repeat themselves rightly.
_ANTI_LOOP_OPTIONS = {"dry_multiplier": 0.8}

_RETRY_TEMPERATURE = 0.6
"""Of an answer in the place of one that could not be used: at 0 a model gives the same again."""
_SMALL_BYTES = 2 << 30
"""Weights of this size, about 3 billion parameters, repeat themselves in long texts."""
_MAKE_ONE_CALL: Final = re.compile(r"smollm2[ -]135m", re.IGNORECASE)
"""The names of weights that do best with one call, which they must make (benchmarks/minds)."""
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
            raise unknown_value_error("LocalModel: a name in options=", _OPTIONS, name)
        if type(value) not in (int, float) or not isfinite(value):
            raise ConfigError(f"LocalModel: options= {name!r} must be a number, got {value!r:.80}")


@names_checked
class LocalModel(InProcess, AnsweringModel):
    """llama.cpp in this process, with any GGUF file.

    It loads on first use. Concurrent callers share its slots and are computed in one batch; further
    callers wait for a slot. A grammar makes it choose an action, or follow a schema. An answer that
    reaches `max_tokens`, or the end of the context, has the finish reason `length`, and a partial
    call is dropped; a prompt too long for the context raises `ContextOverflow`. Given actions, it
    answers or calls some of them, by a list of calls; the model in the box makes one call, which it
    must make until there is a result. If cancelled, a generation ends with its next token (a prompt
    that is being read, with its next batch).

    A space is put into marks of a chat format (such as `<|im_end|>`) in a message, so that no text
    can pass for another speaker's.

    Args:
        path: the weights; default: the ones that `moothall models fetch` fetches
        mmproj: the file with the eyes of weights that see: their vision projector, a GGUF file too;
            then images of messages and of results are shown to them
        name: what people call it
        context_tokens: how much a prompt and its answer may take together; the model's own limit
            holds if that is lower
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time
        seed: the random seed, used at a temperature above 0
        options: more settings of llama.cpp's choice of a token, such as `{"top_p": 0.9}`
        thinking: whether weights that can reason, such as Qwen3, do so before they answer; it takes
            a part of `max_tokens`
        template: `own`, if actions, calls and results go by the chat template of the weights, as
            they were trained, and llama.cpp reads the calls; the template must have tools
        tool_choice: `auto`; `required`, if it must call an action; `none`, if it may call none; or
            the name of the action that it must call
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
        mmproj: str | Path | None = None,
        name: str | None = None,
        context_tokens: int = 4096,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
        slots: int = 2,
        threads: int | None = None,
        deterministic: bool = False,
        options: Mapping[str, float] | None = None,
        thinking: bool = False,
        template: Literal["own"] | None = None,
        tool_choice: str = "auto",
    ) -> None:
        check_integer("LocalModel: context_tokens=", context_tokens)
        check_integer("LocalModel: max_tokens=", max_tokens)
        check_integer("LocalModel: slots=", slots, high=BATCH_TOKENS)  # with more slots it aborts
        check_integer("LocalModel: threads=", threads, high=_MAX_THREADS, optional=True)
        check_sampling("LocalModel", temperature, seed)
        _check_options(options)
        check_text("LocalModel: name=", name, optional=True)
        check_boolean("LocalModel: deterministic=", deterministic)
        check_boolean("LocalModel: thinking=", thinking)
        check_text("LocalModel: tool_choice=", tool_choice)
        if template not in (None, _OWN_TEMPLATE):
            raise ConfigError(f"LocalModel: template= must be 'own' or None, got {template!r:.80}")
        check_path("LocalModel: path=", path, optional=True)
        check_path("LocalModel: mmproj=", mmproj, optional=True)
        self.path: Path = weights.path_or_default(path)
        self.mmproj: Path | None = None if mmproj is None else Path(mmproj)
        self.reads_images: bool = mmproj is not None
        if self.mmproj is not None:
            weights.check_gguf(self.mmproj)
        trained_tokens = weights.context_length(self.path)
        self._is_small = self.path.stat().st_size < _SMALL_BYTES
        if template is not None and not weights.shows_tools(self.path):
            raise ConfigError(
                f"LocalModel: template='own' needs weights whose chat template has tools, and that "
                f"of {self.path} has none: leave template= out"
            )
        self._own_template = template == _OWN_TEMPLATE
        makes_one_call = _MAKE_ONE_CALL.search(weights.stated_name(self.path)) is not None
        self._makes_one_call = makes_one_call and not self._own_template
        self.tool_choice = tool_choice
        self._form = OneCall() if self._makes_one_call else SeveralCalls()
        self._adapter = Adaptations(may_want=())  # to a template of its own
        MissingExtra.unless("a model inside this process", "local", "xllamacpp")
        context_tokens = min(context_tokens, trained_tokens or _LARGEST_CONTEXT, _LARGEST_CONTEXT)
        self.name: str = name or (
            f"local:{weights.DEFAULT_WEIGHTS.name}" if path is None else f"gguf:{self.path.name}"
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
            thinks=thinking,
            mmproj=self.mmproj,
        )
        self._own_engine(self._llama)

    @property
    def loaded(self) -> bool:
        """Whether it is in memory; it loads on first use."""
        return self._llama.loaded

    @property
    def learned(self) -> tuple[str, ...]:
        """What the template of the weights gets since it refused a request without it."""
        return self._adapter.learned

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        if self.tool_choice == "none":
            request = request._replace(actions=None)
        messages, actions = request.messages, request.actions
        if self._goes_by_template(request):
            async with aclosing(self._own_answer(request)) as parts:
                async for part in parts:
                    yield part
            return
        if not actions:
            thinks_first = self._thinks_first(request)
            async with aclosing(self._engine.generate(self._body(request))) as parts:
                async for part in parts:
                    if thinks_first and isinstance(part, ModelReply):
                        part = _value_alone(part)
                        if part.text:
                            yield TextPiece(part.text)
                    elif thinks_first and isinstance(part, TextPiece):
                        continue
                    yield part
            return
        body, usage = self._body(request), NO_USAGE
        for is_last in (False, True):
            answer_text = self._form.answer_text(actions)
            reply: Any = None
            async with aclosing(self._engine.generate(body)) as parts:
                async for part in parts:
                    if isinstance(part, ModelReply):
                        reply = part
                    elif not isinstance(part, TextPiece):
                        yield part
                    elif text := answer_text.add(part.text):
                        yield TextPiece(text)
            usage = usage + reply.usage
            reply = replace(reply, usage=usage)
            if reply.finish_reason == "length":
                reply = replace(reply, text=answer_text.text)  # a partial call cannot be read
                break
            try:
                reply = self._form.read(reply, messages, actions)
                break
            except ValueError as error:
                if is_last or answer_text.text:
                    model_error = ModelError(f"{self.name}: chose nothing readable: {error}")
                    model_error.usage = usage
                    raise model_error from error
                body = self._retry_request(body, reply.text, str(error))
        # An answer that follows a schema is parsed as a whole before it is text.
        if remainder := reply.text[len(answer_text.text) :]:
            yield TextPiece(remainder)
        yield reply

    def _goes_by_template(self, request: ModelRequest) -> bool:
        """Return whether a request goes by the template of the weights; a schema alone does not."""
        return self._own_template and (bool(request.actions) or request.schema is None)

    async def _own_answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Yield the answer to a request that goes by the template of the weights."""
        attempt = request
        if request.schema is not None:  # beside actions, a final one takes the value
            attempt = in_form("final", request)
        adapter = self._adapter  # or a copy that tries what the template asks for
        while True:
            body, text_schema = self._body(attempt, adapter)
            if request.schema is not None:
                body["tool_choice"] = "required"
                answer = as_text(request, self._engine.generate((body, text_schema)))
            else:
                answer = self._engine.generate((body, text_schema))
            has_begun = False
            try:
                async with aclosing(answer) as parts:
                    async for part in parts:
                        if not has_begun and adapter is not self._adapter:
                            self._adapter.keep(adapter, self.name)
                        has_begun = True
                        if isinstance(part, ModelReply) and part.calls:
                            # A number, not a random id: the same prompt gives the same calls.
                            numbered = enumerate(part.calls, calls_in(request.messages) + 1)
                            calls = tuple(replace(call, id=f"call_{n}") for n, call in numbered)
                            part = replace(part, calls=calls)
                        yield part
                return
            except ModelError as error:  # of the template, which may want other roles
                trial = None
                if isinstance(error.refusal, Refusal) and not has_begun:
                    trial = adapter.make_trial(without_own_words(error.refusal, request), b"")
                if trial is None:
                    raise
                adapter = trial

    async def _prepare(self, actions: list[Action] | None) -> None:
        body, text_schema = self._body(
            ModelRequest([{"role": "user", "content": "Hello"}], actions)
        )
        async with aclosing(
            self._engine.generate(({**body, "max_tokens": 1}, text_schema))
        ) as parts:
            async for _ in parts:
                pass

    def _thinks_first(self, request: ModelRequest) -> bool:
        """Return whether it says a thought before the value: a bare one leaves no room for it."""
        is_bare = request.schema is not None and request.schema.get("type") != "object"
        return is_bare and not request.actions and not self._makes_one_call

    def _body(
        self, request: ModelRequest, adapter: Adaptations | None = None
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the request for the engine, and what the text is held to."""
        messages, actions, schema, _ = request
        messages = with_texts(messages) if has_texts(messages) else messages
        text_schema: dict[str, Any] | None = schema
        offered, may_answer = self._allowed_now(messages, actions or [])
        reads_images = self.reads_images
        if self._goes_by_template(request):
            adapter = adapter or self._adapter
            adapted = adapter.adapt_messages(messages, seen_after=reads_images)
            chat = native_chat(chat_messages(adapted, self.name), self.name, reads_images)
        else:
            chat = plain_chat(messages, self.name, self._form, offered, may_answer, reads_images)
        if schema is not None and self._thinks_first(request):
            text_schema = after_a_thought(schema)
            add_schema(chat, text_schema)
        body = {"messages": chat, "max_tokens": self.max_tokens, **self._sampling}
        if offered and self._own_template:
            body["tool_choice"] = "auto" if may_answer else "required"
            body |= {"tools": tools(offered), "parallel_tool_calls": True}
        elif offered:
            answer = schema or {"type": "string"}
            text_schema = self._form.text_schema(offered, answer if may_answer else None)
        if CALL_CONTEXT.get().attempt > 1:
            body["temperature"] = max(body["temperature"], _RETRY_TEMPERATURE)
        if text_schema is None and self._is_small and "tools" not in body:
            body |= _ANTI_LOOP_OPTIONS
        return body, text_schema

    def _allowed_now(
        self, messages: list[dict[str, Any]], actions: list[Action]
    ) -> tuple[list[Action], bool]:
        """Return the actions that it may call now, and whether it may answer."""
        choice = self.tool_choice
        if not actions or choice == "none":
            return [], True
        if has_result(messages):
            return actions, True
        if choice in ("auto", "required"):
            return actions, choice == "auto" and not self._makes_one_call
        chosen = [each for each in actions if each.name == choice]
        if not chosen:
            raise ModelError(f"{self.name}: tool_choice= names {choice!r:.80}, which is no action")
        return chosen, False

    @staticmethod
    def _retry_request(
        body: tuple[dict[str, Any], dict[str, Any] | None], text: str, fault: str
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the request for another answer in the place of one that cannot be read."""
        request, text_schema = body
        notice = f"Your answer cannot be used: {fault}. Answer again."
        turns = [{"role": "assistant", "content": text}, {"role": "user", "content": notice}]
        return {**request, "messages": [*request["messages"], *turns]}, text_schema


def _value_alone(reply: ModelReply) -> ModelReply:
    """Return a reply without the thought before its value; without a text if it is cut off."""
    if reply.finish_reason == "length":
        return replace(reply, text="")
    return replace(reply, text=json.dumps(json.loads(reply.text)["value"], ensure_ascii=False))

"""Models of the Hugging Face hub, unconverted, on PyTorch."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from moothall.arguments import check_count, names_checked
from moothall.errors import (
    ContextOverflow,
    DefinitionError,
    MissingExtra,
    ModelError,
    RemoteForbidden,
    WeightsError,
)
from moothall.http.network import is_loopback, is_offline
from moothall.jsonvalue import unfenced
from moothall.models import choice
from moothall.models.base import Answering, Request
from moothall.models.engine import Engine, InProcess, Job, patient_threads
from moothall.models.plain_chat import TURN_MARK, add_schema, plain_chat
from moothall.models.protocol import ModelReply, ReasoningPiece, StreamPart, TextPiece, Usage
from moothall.models.settings import check_sampling
from moothall.text import error_text, one_line

if TYPE_CHECKING:
    from moothall.action import Action

_HUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_THINK, _THOUGHT = "<think>", "</think>"
# Weights and their files. Pickled ones (.bin, .pt, .ckpt) could run code when loaded.
_FETCHED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_NOT_FETCHED = ("*/*", "consolidated*")
_GREEDY: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}


@names_checked
class TransformersModel(InProcess, Answering):
    """A model of the `transformers` library in this process.

    It loads on first use, once for all callers, in a thread. One answer is computed at a time;
    other callers wait in order of arrival. If cancelled, a waiting call leaves the queue, and a
    running one ends with its next token (while a prompt is being read, after it has been read). A
    prompt too long for the context raises `ContextOverflow`.

    The tokenizer's chat template makes the prompt. A space is put into the tokenizer's special
    tokens (such as `<|im_end|>`) in a message, so that no text can pass for another speaker's.
    Text in `<think>…</think>` before an answer is its reasoning.

    No grammar enforces a form: the prompt asks for actions and a schema. An answer that chooses one
    of the actions becomes its call; any other stays text. `LocalModel` enforces both by a
    grammar.

    Weights are read from safetensors files only, and code of a repository is never run.

    Args:
        name_or_path: `ORG/NAME` on the hub, fetched on first use; or a folder, as a path that
            begins with `/`, `./`, `../` or `~`, or as a `Path`
        max_tokens: how long an answer may be
        temperature: 0 takes the likeliest token each time
        seed: the random seed of PyTorch's one generator: answers are reproducible as long as
            nothing else in the process draws from it
        device: where it computes, such as `cuda:1`; default: an NVIDIA GPU if there is one, else
            the processor
        context_tokens: how much a prompt and its answer may take together; the model's own limit
            holds if that is lower

    Use it as a context manager, or `close()` it, to free the memory.

    Raises:
        MissingExtra: the extra `transformers` is not installed
        DefinitionError: an argument has a wrong type or value
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
        self.name: str = f"hf:{name_or_path}"
        self.max_tokens = max_tokens
        MissingExtra.unless("TransformersModel", "transformers", "torch", "transformers")
        self._torch = _Torch(
            self.name, source, device, context_tokens, max_tokens, temperature, seed
        )
        self._hold(self._torch)

    def __repr__(self) -> str:
        return f"TransformersModel({self.name.removeprefix('hf:')!r})"

    @property
    def context_tokens(self) -> int | None:
        """How many tokens a prompt and its answer may take together; None if not known yet."""
        return self._torch.context_tokens

    @context_tokens.setter
    def context_tokens(self, value: int | None) -> None:
        raise AttributeError("context_tokens is given to TransformersModel(context_tokens=…)")

    async def _prepare(self, actions: list[Action] | None) -> None:
        async with aclosing(self._engine.generate(None)) as parts:
            async for _ in parts:
                pass

    async def _answer(self, request: Request) -> AsyncGenerator[StreamPart, None]:
        messages, actions, schema, _ = request

        def chat(marks: re.Pattern[str]) -> list[dict[str, str]]:
            turns = plain_chat(messages, self.name, marks, actions)
            if schema is not None:
                add_schema(turns, schema)
            return turns

        chat(TURN_MARK)  # raises for a wrong message before anything is loaded
        written = thought = text = ""
        async with aclosing(self._engine.generate(chat)) as parts:
            async for part in parts:
                ended = isinstance(part, ModelReply)
                written = part.text if ended else written + part.text
                before, (thought, text) = (thought, text), _split_reasoning(written, ended)
                if more := thought[len(before[0]) :]:
                    yield ReasoningPiece(more)
                if not actions and (more := text[len(before[1]) :]):
                    yield TextPiece(more)
        assert isinstance(part, ModelReply)  # the last part, unless an error is raised
        reply = replace(part, text=text, reasoning=thought)
        if actions:
            # Until its end, the text may be a call.
            with suppress(ValueError, RecursionError):  # any other text stays as it is
                reply = choice.chosen(replace(reply, text=unfenced(text)), messages)
            if reply.text:
                yield TextPiece(reply.text)
        yield reply


def _split_reasoning(written: str, ended: bool) -> tuple[str, str]:
    """Split a model's text so far into its reasoning and its answer."""
    begun = written.lstrip()
    if not begun.startswith(_THINK):
        may_begin = not ended and _THINK.startswith(begun)
        return "", "" if may_begin else written
    thought, mark, text = begun.removeprefix(_THINK).partition(_THOUGHT)
    if not mark and not ended:
        # Its end may be the beginning of the mark.
        cut = next(n for n in range(len(_THOUGHT), -1, -1) if thought.endswith(_THOUGHT[:n]))
        thought = thought[: len(thought) - cut]
    return thought, text.lstrip()


def _source(given: Any) -> Path | str:
    if isinstance(given, Path) or str(given).startswith(("/", "./", "../", "~")):
        return Path(given).expanduser()
    if isinstance(given, str) and _HUB.fullmatch(given) and ".." not in given:
        return given
    raise DefinitionError(
        f"TransformersModel: {given!r:.200} is neither ORG/NAME of the hub nor a path that begins "
        "with /, ./, ../ or ~ (a GGUF file is gguf:PATH)"
    )


# -- the engine ------------------------------------------------------------------------------------

Chat: TypeAlias = Callable[[re.Pattern[str]], list[dict[str, str]]]
"""Builds a chat, given the marks that no text in it may contain."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    torch: Any
    transformers: Any
    model: Any
    tokenizer: Any
    marks: re.Pattern[str]
    ends: frozenset[int]


@dataclass(eq=False)
class _Torch(Engine):
    """A model of `transformers` and the thread that runs it; a request is a `Chat`."""

    source: Path | str
    device: str | None
    context_tokens: int | None  # the model's own limit too, once it is loaded
    max_tokens: int
    temperature: float
    seed: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._loaded: _Loaded | None = None

    def unload(self, safe: bool) -> None:
        """Free the memory as soon as no thread computes with it."""
        self._loaded = None

    def run(self, job: Job) -> ModelReply | None:
        """Complete a chat; the library's own errors become one line."""
        try:
            return self._generate(job)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{self.name}: {error_text(error, 300)}") from error

    def _generate(self, job: Job) -> ModelReply | None:
        loaded = self._loaded = self._loaded or self._load()
        if job.request is None:
            return ModelReply()  # it was only to be loaded
        torch, tokenizer, device = loaded.torch, loaded.tokenizer, loaded.model.device
        prompt = self._prompt(loaded, job.request(loaded.marks))
        given = prompt["input_ids"].shape[-1]
        room = self.max_tokens
        if self.context_tokens is not None:
            room = min(room, self.context_tokens - given)
            if room < 1:
                raise ContextOverflow(
                    f"{self.name}: the prompt has {given} tokens, and the context holds "
                    f"{self.context_tokens}; nothing was cut"
                )
        shown = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        streamer = loaded.transformers.TextStreamer(tokenizer, skip_prompt=True, **shown)
        pieces: list[str] = []

        def deliver(text: str, stream_end: bool = False) -> None:
            pieces.append(text)
            job.deliver(TextPiece(text))

        streamer.on_finalized_text = deliver
        sampled = _GREEDY
        if self.temperature > 0:
            sampled = {"do_sample": True, "temperature": self.temperature}
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices, enabled=self.seed is not None):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            (written,) = loaded.model.generate(
                **prompt.to(device),
                **sampled,
                max_new_tokens=room,
                pad_token_id=tokenizer.pad_token_id or min(loaded.ends, default=0),
                streamer=streamer,
                stopping_criteria=[lambda *_: torch.tensor([job.cancelled], device=device)],
            )
        if job.cancelled:
            return None
        reason = "stop" if int(written[-1]) in loaded.ends else "length"
        return ModelReply("".join(pieces), (), Usage(given, len(written) - given), reason)

    def _prompt(self, loaded: _Loaded, chat: list[dict[str, str]]) -> Any:
        tokenizer = loaded.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            turns = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in chat]
            return tokenizer("\n\n".join([*turns, "Assistant:"]), return_tensors="pt")
        made = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
        forms = [chat]
        if [turn["role"] for turn in chat[:2]] == ["system", "user"]:
            # Some templates refuse a system message; its text then precedes the user's.
            content = f"{chat[0]['content']}\n\n{chat[1]['content']}"
            forms.append([{"role": "user", "content": content}, *chat[2:]])
        for form in forms:
            try:
                return tokenizer.apply_chat_template(form, **made)
            except Exception as error:
                refused = error
        reason = one_line(str(refused), 300)
        raise ModelError(
            f"{self.name}: its chat template does not take this conversation: {reason}"
        ) from refused

    def _load(self) -> _Loaded:
        # Otherwise the library asks the hub, in a thread, to convert pickled weights.
        os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
        torch, transformers = _libraries()
        folder = self._folder()
        if not any(folder.glob("*.safetensors")):
            raise WeightsError(
                f"{self.name}: there are no safetensors weights in {folder}; pickled ones (.bin) "
                "are not loaded, because they can run code: convert them, or take another model"
            )
        device = self.device
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        how = {"local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, use_safetensors=True, dtype="auto", **how
            )
            model.to(device).eval()
        except Exception as error:
            raise WeightsError(
                f"{self.name}: could not be loaded: {one_line(str(error), 300)}"
            ) from error
        special = [each.content for each in tokenizer.added_tokens_decoder.values() if each.special]
        special = sorted({*special, *tokenizer.all_special_tokens}, key=len, reverse=True)
        marks = [re.escape(mark) for mark in special if len(mark) > 1]
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends, tokenizer.eos_token_id]
        limits = (self.context_tokens, getattr(model.config, "max_position_embeddings", None))
        self.context_tokens = min((limit for limit in limits if limit), default=None)
        return _Loaded(
            torch,
            transformers,
            model,
            tokenizer,
            re.compile("|".join([*marks, TURN_MARK.pattern])),
            frozenset(end for end in ends if end is not None),
        )

    def _folder(self) -> Path:
        if isinstance(self.source, Path):
            if not self.source.is_dir():
                raise WeightsError(f"{self.name}: there is no folder {self.source}")
            return self.source
        import huggingface_hub

        here_only = is_offline() and not is_loopback(huggingface_hub.constants.ENDPOINT)
        try:
            found = huggingface_hub.snapshot_download(
                self.source,
                allow_patterns=list(_FETCHED),
                ignore_patterns=list(_NOT_FETCHED),
                local_files_only=here_only,
            )
        except Exception as error:
            if here_only:
                raise RemoteForbidden(
                    f"{self.name}: MOOTHALL_OFFLINE=1 forbids fetching it from the hub, and it "
                    "is not here; unset it for the first use"
                ) from error
            raise WeightsError(
                f"{self.name}: the hub did not give it: {one_line(str(error), 300)}"
            ) from error
        return Path(found)


def _libraries() -> tuple[Any, Any]:
    # On two busy cores, matrix products took 6 s with this many turns, 51 s without a bound.
    with patient_threads(400):
        import torch
    import transformers

    # Otherwise each file shows a progress bar on the terminal of a chat.
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers

"""PyTorch in this process: one model, loaded when first used, in the one thread that computes.

Callers beyond the first wait their turn, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from civitas.errors import ContextOverflow, ModelError, RemoteForbidden, WeightsError
from civitas.models.patient_threads import patient_threads
from civitas.network import is_loopback, is_offline

# How long leaving the process may wait for the token that is being computed.
_EXIT_S = 20.0
# Weights and what belongs to them. Pickled ones (.bin, .pt, .ckpt) could run code when loaded.
_FETCHED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_NOT_FETCHED = ("*/*", "consolidated*")
_HALF_A_CHARACTER = "\ufffd"
_TURN_MARKS = r"<\|[^<>|\s]{1,64}\|>|<(?:start|end)_of_turn>"


@dataclass(frozen=True, slots=True)
class Generated:
    """How a generation ended; `finish_reason` is `stop` or `length`."""

    input_tokens: int
    output_tokens: int
    finish_reason: str


@dataclass(slots=True, eq=False)
class _Job:
    chat: Callable[[re.Pattern[str]], list[dict[str, str]]]
    deliver: Callable[[str | Generated | BaseException], None]
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class _Loaded:
    torch: Any
    model: Any
    tokenizer: Any
    marks: re.Pattern[str]
    ends: frozenset[int]
    context_tokens: int | None


class TorchRuntime:
    """A model of `transformers`, and the thread that computes with it."""

    def __init__(
        self,
        source: Path | str,
        name: str,
        device: str | None,
        context_tokens: int | None,
        max_tokens: int,
        temperature: float,
        seed: int | None,
    ) -> None:
        self._source = source
        self._name = name
        self._device = device
        self._context_tokens = context_tokens
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._seed = seed
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting: set[_Job] = set()
        self._thread: threading.Thread | None = None
        self._loaded: _Loaded | None = None
        self._closed = False

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None as long as it is not known."""
        return self._loaded.context_tokens if self._loaded else self._context_tokens

    async def generate(
        self, chat: Callable[[re.Pattern[str]], list[dict[str, str]]]
    ) -> AsyncIterator[str | Generated]:
        """The pieces of an answer, and at last how it ended.

        Closed or cancelled, it ends with the next token; this does not wait for it.
        """
        loop = asyncio.get_running_loop()
        # As long as an answer may be, and no longer.
        pieces: asyncio.Queue[str | Generated | BaseException] = asyncio.Queue()

        def deliver(piece: str | Generated | BaseException) -> None:
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:
                pass  # the loop has ended, and with it whoever waited

        job = _Job(chat, deliver)
        self._submit(job)
        try:
            while True:
                piece = await pieces.get()
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
                if isinstance(piece, Generated):
                    return
        finally:
            job.cancelled = True

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._name} is closed")
            self._waiting.add(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def close(self, tell: bool = True) -> None:
        """End what is being generated and give the memory back; a second time it does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for job in self._waiting:
                job.cancelled = True
                if tell:
                    job.deliver(ModelError(f"{self._name} was closed while it was answering"))
            self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_EXIT_S)
        self._loaded = None

    # -- in the thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            end: Generated | BaseException | None = None
            try:
                if not job.cancelled:
                    end = self._run(job)
            except ModelError as error:
                end = error
            except Exception as error:
                end = ModelError(f"{self._name}: {type(error).__name__}: {_one_line(error)}")
                end.__cause__ = error
            except BaseException as error:
                end = error
            with self._lock:
                self._waiting.discard(job)
            if end is not None:
                job.deliver(end)
            # Nothing of the last job is kept while waiting for the next.
            del job, end

    def _run(self, job: _Job) -> Generated | None:
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = self._load()
        torch, tokenizer = loaded.torch, loaded.tokenizer
        prompt = self._prompt(loaded, job.chat(loaded.marks))
        given = prompt["input_ids"].shape[-1]
        room = self._max_tokens
        if loaded.context_tokens is not None:
            room = min(room, loaded.context_tokens - given)
            if room < 1:
                raise ContextOverflow(
                    f"{self._name}: the prompt has {given} tokens, and the context holds "
                    f"{loaded.context_tokens}; nothing was cut"
                )
        reader = _Reader(tokenizer, job)
        sampled: dict[str, Any] = {
            "do_sample": False,
            "temperature": None,
            "top_p": None,
            "top_k": None,
        }
        if self._temperature > 0:
            sampled = {"do_sample": True, "temperature": self._temperature}
        stop = torch.tensor([True], device=loaded.model.device)
        go = torch.tensor([False], device=loaded.model.device)
        devices = [loaded.model.device] if loaded.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices, enabled=self._seed is not None):
            if self._seed is not None:
                torch.manual_seed(self._seed)
            loaded.model.generate(
                **prompt.to(loaded.model.device),
                **sampled,
                max_new_tokens=room,
                pad_token_id=tokenizer.pad_token_id or min(loaded.ends, default=0),
                stopping_criteria=[lambda ids, scores: stop if reader.take(ids) else go],
            )
        if job.cancelled:
            return None
        reader.flush()
        ended = bool(reader.ids) and reader.ids[-1] in loaded.ends
        return Generated(given, len(reader.ids), "stop" if ended else "length")

    def _prompt(self, loaded: _Loaded, chat: list[dict[str, str]]) -> Any:
        tokenizer = loaded.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            turns = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in chat]
            return tokenizer("\n\n".join([*turns, "Assistant:"]), return_tensors="pt")
        made = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
        try:
            return tokenizer.apply_chat_template(chat, **made)
        except Exception as error:
            # Some templates refuse a system message; what it says then goes before the user's.
            if chat[0]["role"] != "system" or len(chat) < 2 or chat[1]["role"] != "user":
                raise self._refused(error) from error
            content = f"{chat[0]['content']}\n\n{chat[1]['content']}"
            try:
                return tokenizer.apply_chat_template(
                    [{"role": "user", "content": content}, *chat[2:]], **made
                )
            except Exception as second:
                raise self._refused(second) from second

    def _refused(self, error: Exception) -> ModelError:
        return ModelError(
            f"{self._name}: its chat template does not take this conversation: {_one_line(error)}"
        )

    def _load(self) -> _Loaded:
        # Otherwise it asks the hub, in a thread, to have pickled weights converted.
        os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
        torch, transformers = _libraries()
        folder = self._folder()
        if not any(folder.glob("*.safetensors")):
            raise WeightsError(
                f"{self._name}: there are no safetensors weights in {folder}; pickled ones (.bin) "
                "are not loaded, because they can run code: convert them, or take another model"
            )
        device = self._device
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        bars = transformers.utils.logging.is_progress_bar_enabled()
        transformers.utils.logging.disable_progress_bar()
        how = {"local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, use_safetensors=True, dtype="auto", **how
            )
            model.to(device).eval()
        except Exception as error:
            raise WeightsError(f"{self._name}: could not be loaded: {_one_line(error)}") from error
        finally:
            if bars:
                transformers.utils.logging.enable_progress_bar()
        special = [each.content for each in tokenizer.added_tokens_decoder.values() if each.special]
        special = sorted({*special, *tokenizer.all_special_tokens}, key=len, reverse=True)
        marks = [re.escape(mark) for mark in special if len(mark) > 1]
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends, tokenizer.eos_token_id]
        limits = (self._context_tokens, getattr(model.config, "max_position_embeddings", None))
        return _Loaded(
            torch,
            model,
            tokenizer,
            re.compile("|".join([*marks, _TURN_MARKS])),
            frozenset(end for end in ends if end is not None),
            min((limit for limit in limits if limit), default=None),
        )

    def _folder(self) -> Path:
        if isinstance(self._source, Path):
            if not self._source.is_dir():
                raise WeightsError(f"{self._name}: there is no folder {self._source}")
            return self._source
        import huggingface_hub

        shown: Any = huggingface_hub.utils
        bars = not shown.are_progress_bars_disabled()
        shown.disable_progress_bars()
        here_only = is_offline() and not is_loopback(huggingface_hub.constants.ENDPOINT)
        try:
            found = huggingface_hub.snapshot_download(
                self._source,
                allow_patterns=list(_FETCHED),
                ignore_patterns=list(_NOT_FETCHED),
                local_files_only=here_only,
            )
        except Exception as error:
            if here_only:
                raise RemoteForbidden(
                    f"{self._name}: CIVITAS_OFFLINE=1 forbids fetching it from the hub, and it "
                    "is not here; unset it for the first use"
                ) from error
            raise WeightsError(
                f"{self._name}: the hub did not give it: {_one_line(error)}"
            ) from error
        finally:
            if bars:
                shown.enable_progress_bars()
        return Path(found)


class _Reader:
    """Turns tokens into text as they come, and delivers it in whole characters."""

    def __init__(self, tokenizer: Any, job: _Job) -> None:
        self._tokenizer = tokenizer
        self._job = job
        self._begin = 0  # of the tokens that are decoded: one alone may be written otherwise
        self._read = 0  # how many have been delivered
        self.ids: list[int] = []

    def take(self, ids: Any) -> bool:
        """Look at the last token; whether that is enough."""
        self.ids.append(int(ids[0, -1]))
        if not self._job.cancelled:
            self._deliver(last=False)
        return self._job.cancelled

    def flush(self) -> None:
        """Deliver the rest, which may end in half a character."""
        self._deliver(last=True)

    def _deliver(self, last: bool) -> None:
        before = self._text(self._begin, self._read)
        text = self._text(self._begin, len(self.ids))
        if len(text) > len(before) and (last or not text.endswith(_HALF_A_CHARACTER)):
            self._begin, self._read = self._read, len(self.ids)
            self._job.deliver(text[len(before) :])

    def _text(self, begin: int, end: int) -> str:
        text: str = self._tokenizer.decode(
            self.ids[begin:end], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


def _libraries() -> tuple[Any, Any]:
    # On two busy cores, products of matrices took 6 s with as many turns, 51 s without a bound.
    with patient_threads(400):
        import torch
    import transformers

    return torch, transformers


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]

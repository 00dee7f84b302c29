"""PyTorch in this process: one model, loaded when first used, in the one thread that computes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from civitas.errors import ContextOverflow, ModelError, RemoteForbidden, WeightsError
from civitas.http.network import is_loopback, is_offline
from civitas.models.engine import Engine, Generated, Job, patient_threads
from civitas.models.protocol import TextPiece
from civitas.text import one_line

# Weights and what belongs to them. Pickled ones (.bin, .pt, .ckpt) could run code when loaded.
_FETCHED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_NOT_FETCHED = ("*/*", "consolidated*")
_TURN_MARKS = r"<\|[^<>|\s]{1,64}\|>|<(?:start|end)_of_turn>"


Chat: TypeAlias = Callable[[re.Pattern[str]], list[dict[str, str]]]
"""Makes a chat, given the marks that no text in it may have."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    torch: Any
    transformers: Any
    model: Any
    tokenizer: Any
    marks: re.Pattern[str]
    ends: frozenset[int]
    context_tokens: int | None


class TorchEngine(Engine):
    """A model of `transformers`, and the thread that computes with it; a request is a `Chat`."""

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
        super().__init__(name, slots=1)
        self._source = source
        self._device = device
        self._context_tokens = context_tokens
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._seed = seed
        self._loaded: _Loaded | None = None

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None as long as it is not known."""
        return self._loaded.context_tokens if self._loaded else self._context_tokens

    def unload(self, safe: bool) -> None:
        """Give the memory back, as soon as no thread computes with it."""
        self._loaded = None

    def run(self, job: Job) -> Generated | None:
        """Continue a chat; the library's own errors become one line."""
        try:
            return self._generate(job)
        except ModelError:
            raise
        except Exception as error:
            reason = one_line(str(error), 300)
            raise ModelError(f"{self.name}: {type(error).__name__}: {reason}") from error

    def _generate(self, job: Job) -> Generated | None:
        loaded = self._loaded = self._loaded or self._load()
        torch, tokenizer, device = loaded.torch, loaded.tokenizer, loaded.model.device
        prompt = self._prompt(loaded, job.request(loaded.marks))
        given = prompt["input_ids"].shape[-1]
        room = self._max_tokens
        if loaded.context_tokens is not None:
            room = min(room, loaded.context_tokens - given)
            if room < 1:
                raise ContextOverflow(
                    f"{self.name}: the prompt has {given} tokens, and the context holds "
                    f"{loaded.context_tokens}; nothing was cut"
                )
        streamer = loaded.transformers.TextStreamer(
            tokenizer,
            skip_prompt=True,
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        streamer.on_finalized_text = lambda text, stream_end=False: job.deliver(TextPiece(text))
        sampled: dict[str, Any] = {
            "do_sample": False,
            "temperature": None,
            "top_p": None,
            "top_k": None,
        }
        if self._temperature > 0:
            sampled = {"do_sample": True, "temperature": self._temperature}
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices, enabled=self._seed is not None):
            if self._seed is not None:
                torch.manual_seed(self._seed)
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
        return Generated(given, len(written) - given, reason)

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
        reason = one_line(str(error), 300)
        return ModelError(
            f"{self.name}: its chat template does not take this conversation: {reason}"
        )

    def _load(self) -> _Loaded:
        # Otherwise it asks the hub, in a thread, to have pickled weights converted.
        os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
        torch, transformers = _libraries()
        folder = self._folder()
        if not any(folder.glob("*.safetensors")):
            raise WeightsError(
                f"{self.name}: there are no safetensors weights in {folder}; pickled ones (.bin) "
                "are not loaded, because they can run code: convert them, or take another model"
            )
        device = self._device
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
        limits = (self._context_tokens, getattr(model.config, "max_position_embeddings", None))
        return _Loaded(
            torch,
            transformers,
            model,
            tokenizer,
            re.compile("|".join([*marks, _TURN_MARKS])),
            frozenset(end for end in ends if end is not None),
            min((limit for limit in limits if limit), default=None),
        )

    def _folder(self) -> Path:
        if isinstance(self._source, Path):
            if not self._source.is_dir():
                raise WeightsError(f"{self.name}: there is no folder {self._source}")
            return self._source
        import huggingface_hub

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
                    f"{self.name}: CIVITAS_OFFLINE=1 forbids fetching it from the hub, and it "
                    "is not here; unset it for the first use"
                ) from error
            raise WeightsError(
                f"{self.name}: the hub did not give it: {one_line(str(error), 300)}"
            ) from error
        return Path(found)


def _libraries() -> tuple[Any, Any]:
    # Otherwise each file has a bar of its own, on the terminal of whoever chats.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # On two busy cores, products of matrices took 6 s with as many turns, 51 s without a bound.
    with patient_threads(400):
        import torch
    import transformers

    return torch, transformers

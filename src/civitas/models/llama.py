"""llama.cpp in this process: how its weights are loaded, for chat and for embedding."""

from __future__ import annotations

import ctypes
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from civitas.errors import WeightsError
from civitas.models import weights
from civitas.models.patient_threads import patient_threads

SPIN_TURNS: Final = 3_000
"""As long as waking takes where it takes long.

Tokens a second on two cores that are idle, with one of them busy, and with both: 77, 40, 31 with
400 turns; 103, 31, 39 with 1,000; 107, 23, 42 with 4,000; 101, 8, 37 with 100,000, near the
runtime's own number.
"""
EXIT_S: Final = 20.0
"""How long leaving the process may wait for the batch that is being computed."""
_READ_BYTES = 1 << 22


def library() -> Any:
    """The module `xllamacpp`, imported."""
    with patient_threads(SPIN_TURNS):
        import xllamacpp
    return xllamacpp


def read_through(path: Path, see: Callable[[memoryview], object] | None = None) -> None:
    """Read a GGUF file, piece by piece, each shown to `see`.

    The runtime holds the interpreter's lock until the model is loaded. Read beforehand, without the
    lock, the file is in the system's cache, and that time short.
    """
    weights.check_gguf(path)
    buffer = memoryview(bytearray(_READ_BYTES))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            if see is not None:
                see(buffer[:size])


def started(
    path: Path,
    *,
    slots: int,
    context_tokens: int,
    batch_tokens: int,
    cores: int | None,
    pooling: str | None = None,
) -> Any:
    """The runtime with the weights of a file loaded; with a `pooling` it embeds.

    Taken apart before its loop runs, it would hang: it is to be called once, whatever happens.
    """
    xllamacpp = library()
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    if pooling is not None:
        params.embedding = True
        kind = f"LLAMA_POOLING_TYPE_{pooling.upper()}"
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, kind)
    params.n_parallel = slots
    params.n_ctx = slots * context_tokens
    params.n_batch = params.n_ubatch = batch_tokens
    params.ctx_shift = False  # a full context ends an answer; nothing is dropped from its beginning
    params.cache_ram_mib = 0  # prompts are cached in the slots, not in up to 8 GB beside them
    params.enable_reasoning = 0
    params.fit_params = params.warmup = False
    params.verbosity = 9 if os.environ.get("CIVITAS_DEBUG", "") not in ("", "0") else -1
    if cores is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = cores
    # The runtime always opens an HTTP server beside itself. Nobody is to come in through it: it
    # wants a key that nobody knows, and where there are Unix sockets its own is removed at once.
    params.ui = params.endpoint_slots = False
    params.n_threads_http = 1
    params.cors_origins = ""
    params.api_keys = [secrets.token_urlsafe(32)]
    with tempfile.TemporaryDirectory(prefix="civitas-", ignore_cleanup_errors=True) as folder:
        if os.name == "posix":
            params.hostnames = [f"{folder}/llama.sock"]
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise WeightsError(
                f"{path}: could not be loaded: incomplete, damaged, of a kind that the runtime "
                "does not know, or too large for the memory (CIVITAS_DEBUG=1 shows more)"
            ) from error


def abandon(server: Any) -> None:
    """Leave a runtime in memory for good: taken apart now, it would take the process along."""
    if server is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))

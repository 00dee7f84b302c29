"""The context that a model was made for, as the header of its file says it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.models import LocalModel
from moothall.models.local.weights import context_length

UINT32, INT32, FLOAT32, TEXT, LIST, UINT64 = 4, 5, 6, 8, 9, 10
FORMS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", UINT64: "<Q"}


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(name: str, kind: int, value: Any) -> bytes:
    head = text(name) + struct.pack("<I", kind)
    if kind == TEXT:
        return head + text(value)
    if kind == LIST:
        of, items = value
        body = b"".join(
            text(item) if of == TEXT else struct.pack(FORMS[of], item) for item in items
        )
        return head + struct.pack("<IQ", of, len(items)) + body
    return head + struct.pack(FORMS[kind], value)


def header(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + b"".join(entries)


LLAMA = entry("general.architecture", TEXT, "llama")
LENGTH = entry("llama.context_length", UINT32, 2048)
WORDS = entry("tokenizer.ggml.tokens", LIST, (TEXT, ["a", "bc", "д"] * 1000))
SCORES = entry("tokenizer.ggml.scores", LIST, (FLOAT32, [0.5] * 1000))
OTHER = entry("clip.context_length", UINT64, 77)
GOOD = header(LLAMA, entry("general.name", TEXT, "x"), WORDS, SCORES, OTHER, LENGTH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.gguf"


@pytest.mark.parametrize(
    ("data", "length"),
    (
        (GOOD, 2048),
        (header(LENGTH, LLAMA), 2048),
        (header(LLAMA, LENGTH, version=2), 2048),
        (header(LLAMA, entry("llama.context_length", INT32, 9), WORDS), 9),
        (header(LLAMA, entry("llama.context_length", UINT64, 1 << 40)), 1 << 40),
        (header(LLAMA, OTHER), None),
        (header(OTHER), None),
        (header(), None),
        (header(LLAMA, entry("llama.context_length", FLOAT32, 5)), None),
        (header(LLAMA, entry("llama.context_length", UINT32, 0)), None),
        (b"GGUF\x00\x00\x00\x03" + b"\0" * 100, None),
    ),
)
def test_gguf_header_says_the_context_that_the_model_was_made_for(
    path: Path, data: bytes, length: int | None
) -> None:
    path.write_bytes(data)
    assert context_length(path) == length


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=3 * settings().max_examples,
)
@given(st.integers(0, len(GOOD)), st.binary(max_size=12), st.booleans())
def test_gguf_header_of_any_bytes_is_read(path: Path, at: int, bytes_: bytes, cut: bool) -> None:
    rest = b"" if cut else GOOD[at + len(bytes_) :]
    path.write_bytes(b"GGUF" + (GOOD[:at] + bytes_ + rest)[4:])
    length = context_length(path)
    assert length is None or (type(length) is int and length > 0)


def test_local_model_context_is_lowered_to_what_the_model_was_made_for(weights: Path) -> None:
    with LocalModel(weights, context_tokens=1_000_000) as model:
        assert model.context_tokens == 8192
    with LocalModel(weights, context_tokens=1000) as model:
        assert model.context_tokens == 1000

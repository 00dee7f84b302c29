"""The context that a model was made for, as the header of its file says it, or damaged as it is."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from civitas.errors import WeightsError
from civitas.models import LocalModel
from civitas.models.weights import context_length

UINT32, INT32, FLOAT32, TEXT, LIST, UINT64, FLOAT64 = 4, 5, 6, 8, 9, 10, 12
FORMS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", UINT64: "<Q", FLOAT64: "<d"}


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


def header(*entries: bytes, version: int = 3, count: int | None = None) -> bytes:
    claimed = len(entries) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", version, 0, claimed) + b"".join(entries)


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
        (header(LLAMA, entry("llama.context_length", UINT64, 1 << 40)), 1 << 40),
        (header(LLAMA, OTHER), None),
        (header(OTHER), None),
        (header(), None),
        (header(LLAMA, entry("llama.context_length", FLOAT32, 5)), None),
        (header(LLAMA, LENGTH, version=1), None),
        (b"GGUF\x00\x00\x00\x03" + b"\0" * 100, None),
    ),
)
def test_the_header_says_what_the_model_was_made_for(
    path: Path, data: bytes, length: int | None
) -> None:
    path.write_bytes(data)
    assert context_length(path) == length


@pytest.mark.parametrize(
    ("data", "said"),
    (
        (b"GGUF", "it ends too soon"),
        (GOOD[:-1], "it ends too soon"),
        (header(LLAMA, LENGTH, count=3)[:-4], "it ends too soon"),
        (header(count=2**63), "it ends too soon"),
        (header(struct.pack("<Q", 2**60)), "it ends too soon"),
        (header(text("x") + struct.pack("<IIQ", LIST, UINT64, 2**62)), "it ends too soon"),
        (header(text("x") + struct.pack("<IIQ", LIST, TEXT, 2**62)), "it ends too soon"),
        (header(text("x") + struct.pack("<I", 99)), "of the unknown type 99"),
        (
            header(text("x") + struct.pack("<I", LIST) + struct.pack("<IQ", LIST, 1) * 2),
            "of the unknown type 9",
        ),
        (header(LLAMA, entry("llama.context_length", INT32, -5)), "a context of -5 tokens"),
    ),
    ids=lambda given: given[:40] if isinstance(given, str) else "",
)
def test_a_damaged_header_is_named_before_anything_is_loaded(
    path: Path, data: bytes, said: str
) -> None:
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"some\.gguf: its header is damaged: ") as caught:
        LocalModel(path)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.integers(0, len(GOOD)), st.binary(max_size=12), st.booleans())
def test_whatever_is_in_a_header_it_is_read_or_damaged(
    path: Path, at: int, bytes_: bytes, cut: bool
) -> None:
    rest = b"" if cut else GOOD[at + len(bytes_) :]
    path.write_bytes(b"GGUF" + (GOOD[:at] + bytes_ + rest)[4:])
    try:
        length = context_length(path)
    except WeightsError:
        return
    assert length is None or (type(length) is int and length > 0)


def test_a_context_is_lowered_to_what_the_model_was_made_for(weights: Path) -> None:
    with LocalModel(weights, context_tokens=1_000_000) as model:
        assert model.context_tokens == 8192
    with LocalModel(weights, context_tokens=1000) as model:
        assert model.context_tokens == 1000

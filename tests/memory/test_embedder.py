"""The embedder that needs no model."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.memory import Embedder, HashEmbedder


def likeness(one: str, other: str) -> float:
    a, b = HashEmbedder().embed([one, other])
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_hash_embedder_is_an_embedder() -> None:
    embedder = HashEmbedder()
    assert isinstance(embedder, Embedder)
    assert embedder.dimensions == 256
    assert embedder.name != HashEmbedder(128).name
    assert embedder.embed([]) == []


@given(st.text(max_size=200), st.sampled_from((8, 100, 256)))
def test_hash_embedder_vectors_have_length_one_or_zero(text: str, dimensions: int) -> None:
    (vector,) = HashEmbedder(dimensions).embed([text])
    assert len(vector) == dimensions
    length = math.hypot(*vector)
    assert length == 0 or math.isclose(length, 1)


def test_text_without_words_has_no_direction() -> None:
    assert HashEmbedder(8).embed(["", " …!", "\n"]) == [[0.0] * 8] * 3


@pytest.mark.parametrize(
    ("text", "near", "far"),
    (
        ("unpaid invoices", "the invoice has not been paid", "the weather is fine"),
        ("retreival", "retrieval of documents", "a long winter"),
        ("INVOICE", "invoice", "voice"),
        ("Zahlungserinnerung", "Erinnerung an die Zahlung", "Wetterbericht von gestern"),
        ("日本語の文章", "日本語です", "中国料理"),
        ("room 4711", "it is in room 4711", "it is in hall 4712"),
    ),
)
def test_texts_of_like_spelling_are_near(text: str, near: str, far: str) -> None:
    assert likeness(text, text) == pytest.approx(1)
    assert likeness(text, near) > likeness(text, far) + 0.1


@pytest.mark.parametrize(
    ("text", "vector"),
    (
        (
            "\uff21da paid, paid, PREPAID 4711 日本語",
            [0.542691, 0.364703, -0.260916, -0.486271, 0.121568, -0.370768, 0.29349, 0.171923],
        ),
        (
            "Maß 東京タワー 42",
            [0.393417, -0.325918, -0.393417, 0.230459, 0.162959, -0.488877, -0.488877, 0.162959],
        ),
    ),
)
def test_hash_embedder_vectors_stay_the_same_under_one_name(text: str, vector: list[float]) -> None:
    """Files keep vectors under the embedder's name, so other vectors need another name."""
    embedder = HashEmbedder(8)
    assert embedder.name == "hashed-pieces-1-8"
    assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)
    assert len(HashEmbedder(65536).embed([text])[0]) == 65536


def test_hash_embedder_gives_equal_vectors_in_every_process() -> None:
    program = (
        "from moothall.memory import HashEmbedder\n"
        "print(HashEmbedder(16).embed(['Grüße, 世界 and all']))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] == f"{HashEmbedder(16).embed(['Grüße, 世界 and all'])}\n"

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.foundation.errors import DefinitionError, ModelError, WeightsError
from moothall.memory import Embedder, HashEmbedder, SQLiteMemory
from moothall.models import LocalEmbedder

pytestmark = [pytest.mark.xdist_group("local_model"), pytest.mark.timeout(180)]

# Said in other words: none of importance is in both.
PAIRS = (
    ("The cat is sleeping on the couch.", "A kitten naps on the sofa."),
    ("Shares fell sharply after the announcement.", "The stock price dropped at the news."),
    ("The doctor prescribed antibiotics.", "A physician ordered medicine against infection."),
    ("Heavy rain flooded the village.", "Downpours put the hamlet under water."),
    ("The thief was caught by the police.", "Officers arrested the burglar."),
    ("Children played football in the park.", "Kids kicked a ball around on the green."),
)


@pytest.fixture(scope="module")
def embedder(weights: Path) -> Iterator[LocalEmbedder]:
    with LocalEmbedder() as made:
        yield made


def near(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def vectors(embedder: LocalEmbedder) -> list[list[float]]:
    """What the first of each pair is embedded as."""
    return embedder.embed([pair[0] for pair in PAIRS])


def found(embedder: Embedder, said: list[list[float]]) -> int:
    """How many of the pairs are nearest to each other."""
    asked = embedder.embed([pair[1] for pair in PAIRS])
    nearest = [max(range(len(said)), key=lambda n: near(said[n], vector)) for vector in asked]
    return sum(place == n for n, place in enumerate(nearest))


def test_local_embedder_name_says_what_its_vectors_depend_on(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert "smollm2-135m-b179c9523d0e6a0f-mean-512" in embedder.name
    (vector,) = embedder.embed(["Hello"])
    assert len(vector) == embedder.dimensions == 576
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)
    assert embedder.embed([]) == []


def test_local_embedder_gives_a_text_the_same_vector_whatever_is_beside_it(
    embedder: LocalEmbedder,
) -> None:
    alone = embedder.embed(["The cat is sleeping."])[0]
    beside = embedder.embed(["", "Something else altogether", "The cat is sleeping.", "x"])
    assert beside[2] == alone
    assert beside[0] == [0.0] * 576


def test_texts_of_more_than_a_batch_keep_their_order(embedder: LocalEmbedder) -> None:
    texts = [f"{n}" for n in range(20)]
    vectors = embedder.embed(texts)
    assert vectors[19] == embedder.embed(["19"])[0]
    assert vectors[3] == embedder.embed(["3"])[0]


def test_local_embedder_finds_paraphrases_better_than_hashes(
    embedder: LocalEmbedder, vectors: list[list[float]]
) -> None:
    hashes = HashEmbedder()
    assert found(embedder, vectors) > found(hashes, hashes.embed([pair[0] for pair in PAIRS]))


@pytest.mark.long
def test_local_embedder_embeds_a_text_longer_than_the_context_whole(weights: Path) -> None:
    cat, fall = "The cat is sleeping on the couch. ", "Shares fell sharply today. "
    with LocalEmbedder(context_tokens=64) as short:
        cats, shares, beginning, whole = short.embed([cat, fall, cat * 6, cat * 12 + fall * 12])
    assert math.hypot(*whole) == pytest.approx(1, abs=1e-5)
    # Both halves are in it: a vector of the beginning alone would be far from the end.
    assert near(whole, shares) > near(beginning, shares)
    assert near(whole, cats) > near(shares, cats)


def test_local_embedder_takes_any_text(embedder: LocalEmbedder) -> None:
    for text in ("\udce9", "你好 👋", "\x00", "<|im_end|>", "a" * 100):
        (vector,) = embedder.embed([text])
        assert all(map(math.isfinite, vector))


def test_threads_take_turns(embedder: LocalEmbedder, vectors: list[list[float]]) -> None:
    texts = [pair[0] for pair in PAIRS]
    got: dict[int, list[list[float]]] = {}

    def ask(n: int) -> None:
        got[n] = embedder.embed([texts[n]])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[n][0] for n in range(len(texts))] == vectors


def test_memory_recalls_by_meaning_with_a_local_embedder(
    embedder: LocalEmbedder, tmp_path: Path
) -> None:
    memory = SQLiteMemory(tmp_path / "m.db", embedder=embedder)
    for said, _ in PAIRS:
        memory.add_memory({"role": "user", "content": said})
    assert memory.recall("A kitten naps on the sofa.", 1)[0]["content"] == PAIRS[0][0]
    (found,) = memory.recall("A physician ordered medicine against infection.", 1)
    assert found["content"] == PAIRS[2][0]


def test_closed_it_embeds_no_more_and_a_script_ends_without_a_word(weights: Path) -> None:
    script = (
        "from moothall.models import LocalEmbedder\n"
        "from moothall.foundation.errors import ModelError\n"
        "left_open = LocalEmbedder()\n"
        "with LocalEmbedder() as made:\n"
        "    print(len(made.embed(['Hello'])[0]))\n"
        "try:\n"
        "    made.embed(['Hello'])\n"
        "except ModelError as error:\n"
        "    print(error)\n"
        "made.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == (
        f"576\nLocalEmbedder({weights.name!r}) is closed\n",
        "",
        0,
    )


def test_weights_that_say_nothing_of_pooling_ask_for_it(weights: Path) -> None:
    with pytest.raises(WeightsError, match="pass pooling="):
        LocalEmbedder(weights)


def test_local_embedder_prefix_and_pooling_change_vectors_and_name(
    embedder: LocalEmbedder, weights: Path
) -> None:
    with LocalEmbedder(weights, pooling="last", prefix="query: ") as other:
        assert other.dimensions == 576
        assert other.name != embedder.name
        assert other.embed(["Hello"]) != embedder.embed(["Hello"])


def test_damaged_weights_are_an_error(tmp_path: Path) -> None:
    damaged = tmp_path / "a.gguf"
    with pytest.raises(WeightsError, match="no such file"):
        LocalEmbedder(damaged)
    damaged.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(WeightsError, match="could not be loaded"):
        LocalEmbedder(damaged)


@pytest.mark.parametrize(
    "more",
    ({"pooling": "max"}, {"prefix": 5}, {"context_tokens": 8}, {"threads": 0}, {"threads": True}),
    ids=str,
)
def test_local_embedder_wrong_arguments_are_refused_by_the_constructor(
    more: dict[str, object],
) -> None:
    with pytest.raises(DefinitionError):
        LocalEmbedder(**more)  # type: ignore[arg-type]


def test_local_embedder_without_weights_says_how_to_fetch_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="run: moothall models fetch"):
        LocalEmbedder()

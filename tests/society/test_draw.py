"""Draws: pure, the same for one citizen and for rows, on every platform."""

from __future__ import annotations

import collections
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.foundation.errors import ConfigError
from moothall.society import CitizenAgent, Draws
from moothall.society.kernel.draw import choices, draw_below, integers, uniforms

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1])


def test_draws_are_those_of_every_platform() -> None:
    draws = Draws(seed=7, citizen=3, step=11)
    assert draws.integer("mobility.place") == 338586139748919883
    assert draws.integer("mobility.place", 1) == 538090866395146773
    assert Draws(0, 0, 0).integer("") == 12052202659862738329
    assert Draws(7, "bank", 11).integer("order") == 8428467444626422308
    assert Draws(2**64 - 1, 2**64 - 1, 2**64 - 1).integer("é", 2**64 - 1) == 3693589426257452789


@pytest.mark.long
@given(words, st.lists(words, max_size=5), words, st.text(max_size=5), words)
def test_rows_draw_what_each_citizen_draws(
    seed: int, citizens: list[int], step: int, purpose: str, draw: int
) -> None:
    rows = np.array(citizens, dtype=np.uint64)
    each = [Draws(seed, citizen, step) for citizen in citizens]
    assert integers(seed, rows, step, purpose, draw).tolist() == [
        draws.integer(purpose, draw) for draws in each
    ]
    assert uniforms(seed, rows, step, purpose, draw).tolist() == [
        draws.uniform(purpose, draw) for draws in each
    ]


@given(words, st.integers(1, 2**32) | st.sampled_from([1, 2, 2**31, 2**32 - 1, 2**32]))
def test_draws_below_are_in_range_and_the_same_for_rows(seed: int, n: int) -> None:
    rows = np.arange(20, dtype=np.uint64)
    found = draw_below(n, seed, rows, 1, "p").tolist()
    assert found == [Draws(seed, citizen, 1).below(n, "p") for citizen in range(20)]
    assert all(0 <= value < n for value in found)


@given(
    words,
    st.lists(st.integers(0, 1000), min_size=1, max_size=6).filter(any)
    | st.lists(st.floats(0, 1e300), min_size=1, max_size=6).filter(any),
)
def test_choice_takes_an_index_with_a_weight_and_the_same_for_rows(
    seed: int, weights: list[float]
) -> None:
    rows = np.arange(20, dtype=np.uint64)
    found = choices(weights, seed, rows, 1, "p").tolist()
    assert found == [Draws(seed, citizen, 1).choice(weights, "p") for citizen in range(20)]
    assert all(weights[index] > 0 for index in found)


def test_numbers_are_spread_as_chance_would_spread_them() -> None:
    n = 60_000
    rows = np.arange(n, dtype=np.uint64)
    mean = uniforms(5, rows, 2, "p").mean()
    assert abs(mean - 0.5) < 5 * math.sqrt(1 / 12 / n)
    counts = collections.Counter(choices([1, 2, 3], 5, rows, 2, "p").tolist())
    for index, share in enumerate((1 / 6, 2 / 6, 3 / 6)):
        assert abs(counts[index] - share * n) < 5 * math.sqrt(n * share * (1 - share))
    # One bit of the input changes half of the bits of the output, whichever word it is in.
    pairs = (
        (integers(5, rows, 2, "p"), integers(5, rows ^ np.uint64(1), 2, "p")),
        (integers(5, rows, 2, "p"), integers(5, rows, 3, "p")),
        (integers(5, rows, 2, "p"), integers(4, rows, 2, "p")),
        (integers(5, rows, 2, "p"), integers(5, rows, 2, "p", 1)),
        (integers(5, rows, 2, "p"), integers(5, rows, 2, "q")),
    )
    for one, other in pairs:
        assert abs(np.bitwise_count(one ^ other).mean() - 32) < 5 * math.sqrt(16 / n) + 0.01


def test_draws_of_a_citizen_may_name_it_by_a_text() -> None:
    assert Draws(1, "bank", 0).integer("p") != Draws(1, "firm-1", 0).integer("p")
    assert Draws(1, np.int64(4), 0).integer("p") == Draws(1, 4, 0).integer("p")


@pytest.mark.parametrize("wrong", (-1, 2**64, 1.0, True, None))
def test_words_out_of_range_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        Draws(wrong, 0, 0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="citizen must be a whole number"):
        Draws(0, wrong, 0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="step must be a whole number"):
        Draws(0, 0, wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="draw must be a whole number"):
        Draws(0, 0, 0).integer("p", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", (0, -1, 2**32 + 1, 2.0, True))
def test_draws_below_need_a_count(wrong: int) -> None:
    with pytest.raises(ConfigError, match="n must be a whole number from 1 to"):
        Draws(0, 0, 0).below(wrong, "p")
    with pytest.raises(ConfigError, match="n must be a whole number from 1 to"):
        draw_below(wrong, 0, np.arange(3, dtype=np.uint64), 0, "p")


@pytest.mark.parametrize(
    ("weights", "text"),
    (
        ([], "weights must have one above 0"),
        ([0, 0], "weights must have one above 0"),
        ([1, -1], r"weights\[1\] must be a number from 0 up, got -1"),
        ([1, math.nan], r"weights\[1\] must be a number from 0 up, got NaN"),
        ([math.inf], r"weights\[0\] must be a number from 0 up"),
        (["1"], r"weights\[0\] must be a number"),
        ([2**32, 1], "too large"),
        ([1e308, 1e308], "too large"),
    ),
)
def test_weights_that_are_none_are_refused(weights: list[float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Draws(0, 0, 0).choice(weights, "p")


@pytest.mark.parametrize("wrong", (np.array([0.5]), np.array([-1]), np.array(["a"]), np.uint64(3)))
def test_citizens_of_rows_are_whole_numbers_from_0_up(wrong: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="citizens must be an array of whole numbers"):
        uniforms(0, wrong, 0, "p")


@pytest.mark.parametrize("wrong", ([1.0, 2.0], [1], [0, 1], [1, 2**32]))
def test_counts_of_rows_are_whole_numbers_one_for_each(wrong: list[float]) -> None:
    with pytest.raises(ConfigError, match="n must be whole numbers"):
        draw_below(np.array(wrong), 0, np.arange(2), 0, "p")
    with pytest.raises(ConfigError, match="purpose must be a text, got 3"):
        Draws(0, 0, 0).integer(3)  # type: ignore[arg-type]


def test_society_without_numpy_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import moothall.society, moothall.cli.main\n"
        "print('loaded')\n"
        "from moothall.society import Society\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "loaded\n"
    assert (
        "moothall.society needs the extra 'society': pip install 'moothall[society]'" in done.stderr
    )


def test_draws_of_two_ids_differ_where_both_read_as_one_number() -> None:
    citizens = [CitizenAgent(id) for id in ("7", "07", "007", "0007")]
    numbers = [each.draws.integer("mood") for each in citizens]
    assert len({*numbers}) == 4
    assert numbers[0] == CitizenAgent(7).draws.integer("mood")

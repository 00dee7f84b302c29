"""Randomness as a pure function: splitmix64 of (seed, citizen, step, purpose, draw).

The order in which citizens, shards or workers draw has no effect. The scalar form (`Draws`) and
the form for rows (`integers`, `uniforms`, …) give the same values on every platform: 64-bit
integers are multiplied, shifted and xored, and floats are 53 of the bits times 2⁻⁵³. The words are
chained, `h = mix((h ^ word) + 0x9E3779B97F4A7C15)`, in the order seed, step, purpose, citizen,
draw; `mix` is splitmix64's finalizer (Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number
Generators", OOPSLA; variant 13 of Stafford). This is for simulations, not for secrets.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from moothall import ConfigError
from moothall.build import excerpt
from moothall.society.arrays import Array, WholeNumber, np

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MAX_N = 1 << 32
# The constants of rows are arrays of no dimension, which numpy reads far faster than numbers.
_GAMMA_OF_ROWS, _FIRST_OF_ROWS, _SECOND_OF_ROWS = (
    np.array(each, np.uint64) for each in (_GAMMA, _FIRST, _SECOND)
)
_11, _27, _30, _31, _32 = (np.array(each, np.uint64) for each in (11, 27, 30, 31, 32))
_LOWER_HALF = np.array(0xFFFFFFFF, np.uint64)
_UNIT = np.array(2.0**-53)
_TURN_PURPOSE = "heard"


class Draws:
    """The random numbers of one citizen in one step.

    Args:
        seed: the run's seed, 0 … 2⁶⁴−1
        citizen: the drawing citizen: a whole number 0 … 2⁶⁴−1, or a text such as `bank`, hashed
        step: the step of the run, 0 … 2⁶⁴−1

    Every method takes `purpose`, a text that names the use of the number (`"mobility.place"`), and
    `draw`, the number of the draw for that purpose in that step. The same arguments give the same
    value, always.

    Raises:
        ConfigError: an argument is not such a number or text.
    """

    __slots__ = ("_citizen", "_seed", "_step")

    def __init__(self, seed: int, citizen: int | str, step: int) -> None:
        self._seed = _checked_word("seed", seed)
        self._citizen = (
            hash_of_text(citizen) if isinstance(citizen, str) else _checked_word("citizen", citizen)
        )
        self._step = _checked_word("step", step)

    @property
    def words(self) -> tuple[int, int, int]:
        """The seed, the citizen and the step, as the functions for rows take them."""
        return self._seed, self._citizen, self._step

    def integer(self, purpose: str, draw: int = 0) -> int:
        """Return 64 random bits: 0 … 2⁶⁴−1."""
        if type(draw) is not int or not 0 <= draw <= _MASK:
            _checked_word("draw", draw)
        h = _mix((_prefix(self._seed, self._step, purpose) ^ self._citizen) + _GAMMA & _MASK)
        return _mix((h ^ draw) + _GAMMA & _MASK)

    def uniform(self, purpose: str, draw: int = 0) -> float:
        """Return a float in [0, 1): a multiple of 2⁻⁵³."""
        return (self.integer(purpose, draw) >> 11) * 2.0**-53

    def below(self, n: int, purpose: str, draw: int = 0) -> int:
        """Return a whole number 0 … n−1, for n of 1 … 2³².

        It is the 64 bits times n, shifted right by 64. No value is more than n/2⁶⁴ likelier than
        another, at most 2⁻³² of its probability: unbiased enough for any simulation.
        """
        return self.integer(purpose, draw) * _count(n) >> 64

    def choice(self, weights: Sequence[float], purpose: str, draw: int = 0) -> int:
        """Return an index of `weights`, with a probability in proportion to its weight.

        The index is the first whose cumulative weight is above a random share of the total. Weights
        that are all integers (total at most 2³²) are summed exactly; others as floats, in order.

        Raises:
            ConfigError: there is no weight, one is negative or not finite, or all are 0.
        """
        sums = _cumulate(weights)
        if type(sums[-1]) is int:
            share: float = self.below(sums[-1], purpose, draw)
        else:
            share = self.uniform(purpose, draw) * sums[-1]
        return next((index for index, sum in enumerate(sums) if sum > share), _last_index(sums))


def integers(seed: int, citizens: Array, step: int, purpose: str, draw: Any = 0) -> Array:
    """Return `Draws.integer` of many citizens, uint64; `draw` is one number, or one for each."""
    rows = np.asarray(citizens)
    are_integers = rows.ndim and rows.dtype.kind in "ui"
    if not are_integers or (rows.dtype.kind == "i" and rows.size and rows.min() < 0):
        raise ConfigError(f"citizens must be an array of whole numbers from 0 up, got {rows.dtype}")
    start = _prefix(_checked_word("seed", seed), _checked_word("step", step), purpose)
    h = rows.astype(np.uint64)
    buffer = np.empty_like(h)
    _mix_rows(h, np.array(start, np.uint64), buffer)
    has_draws = getattr(draw, "shape", ()) != ()
    word = draw.astype(np.uint64) if has_draws else np.array(_checked_word("draw", draw), np.uint64)
    _mix_rows(h, word, buffer)
    return h


def uniforms(seed: int, citizens: Array, step: int, purpose: str, draw: int = 0) -> Array:
    """Return `Draws.uniform` of many citizens: float64, of the shape of `citizens` (uint64)."""
    h = integers(seed, citizens, step, purpose, draw)
    uniform: Array = np.right_shift(h, _11, h) * _UNIT
    return uniform


def draw_below(n: Any, seed: int, citizens: Array, step: int, purpose: str, draw: Any = 0) -> Array:
    """Return `Draws.below` of many citizens, int64; `n` is one number, or one for each."""
    is_array = getattr(n, "shape", ()) != ()
    if is_array and (n.dtype.kind not in "iu" or n.shape != citizens.shape):
        raise ConfigError(f"n must be whole numbers, one for each citizen, got {n.dtype}{n.shape}")
    if citizens.shape == (1,) and citizens.dtype == np.uint64:  # the scalar form is far faster
        bound_n, number = (each.item() if hasattr(each, "item") else each for each in (n, draw))
        return np.array([Draws(seed, citizens.item(), step).below(bound_n, purpose, number)])
    if is_array and n.size and not (n.min() >= 1 and n.max() < _MAX_N):
        raise ConfigError("n must be whole numbers from 1 to 2**32 - 1")
    bound: Any = n.astype(np.uint64) if is_array else _count(n.item() if hasattr(n, "item") else n)
    return _scale_bits(integers(seed, citizens, step, purpose, draw), bound).view(np.int64)


def choices(
    weights: Sequence[float],
    seed: int,
    citizens: Array,
    step: int,
    purpose: str,
    draw: int = 0,
) -> Array:
    """Return `Draws.choice` of many citizens: int64, of the shape of `citizens` (uint64)."""
    sums = _cumulate(weights)
    shares: Any
    indexes: Array
    if type(sums[-1]) is int:
        shares = draw_below(sums[-1], seed, citizens, step, purpose, draw)
        indexes = np.searchsorted(np.asarray(sums, dtype=np.int64), shares, side="right")
    else:
        shares = uniforms(seed, citizens, step, purpose, draw) * sums[-1]
        indexes = np.searchsorted(np.asarray(sums, dtype=np.float64), shares, side="right")
    indexes = np.minimum(indexes, _last_index(sums)).astype(np.int64)
    return indexes


def choices_by(
    sums: Array, seed: int, citizens: Array, step: int, purpose: str, draw: int = 0
) -> Array:
    """Return an index for each citizen, by whole weights of its own: a row each of their sums."""
    shares = draw_below(sums[:, -1].copy(), seed, citizens, step, purpose, draw)
    indexes: Array = (sums <= shares[:, None]).sum(axis=1)
    return indexes


def turn_key(seed: int, id: str, step: int) -> tuple[int, str]:
    """Return the sort key of a citizen among those who want the same in a step.

    Whoever has the smaller key is heard first: the order is another one in each step, and each
    order is as likely as any other.
    """
    return Draws(seed, number_or_text(id), step).integer(_TURN_PURPOSE), id


def turn_keys(seed: int, citizens: Array, step: int) -> Array:
    """Return the numbers of `turn_key` of many citizens; uint64."""
    return integers(seed, citizens, step, _TURN_PURPOSE)


def number_or_text(id: str | int) -> int | str:
    """Return what `Draws` takes as the citizen: the number that an id is, also as text; else it."""
    text = str(id)
    is_number = text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= _MASK
    # "007" is a text: another citizen than "7" has other draws.
    return int(text) if is_number and str(int(text)) == text else text


def id_words(ids: Iterable[Any]) -> Array:
    """Return ids as `Draws` takes them: whole numbers, or the hash of a text; uint64."""
    return np.array([hash_of_text(id) if isinstance(id, str) else int(id) for id in ids], np.uint64)


@functools.lru_cache(maxsize=4096)
def hash_of_text(text: str) -> int:
    """Return a text's 64-bit hash: the first 8 bytes of its BLAKE2b, little-endian."""
    if not isinstance(text, str):
        raise ConfigError(f"purpose must be a text, got {excerpt(text)}")
    data = text.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@functools.lru_cache(maxsize=4096)
def _prefix(seed: int, step: int, purpose: str) -> int:
    """Return the chain after seed, step and purpose, which all citizens of a step share."""
    return _mix((_start_of_chain(seed, step) ^ hash_of_text(purpose)) + _GAMMA & _MASK)


@functools.lru_cache(maxsize=64)
def _start_of_chain(seed: int, step: int) -> int:
    """Return the chain after seed and step, which all purposes share."""
    return _mix((_mix(seed + _GAMMA & _MASK) ^ step) + _GAMMA & _MASK)


def _mix(h: int) -> int:
    h = (h ^ h >> 30) * _FIRST & _MASK
    h = (h ^ h >> 27) * _SECOND & _MASK
    return h ^ h >> 31


def _mix_rows(h: Array, word: Array, buffer: Array) -> None:
    """Chain a word, in place; `buffer` is a buffer of the same shape."""
    shift, xor, times = np.right_shift, np.bitwise_xor, np.multiply
    xor(h, word, h)
    np.add(h, _GAMMA_OF_ROWS, h)
    xor(h, shift(h, _30, buffer), h)
    times(h, _FIRST_OF_ROWS, h)
    xor(h, shift(h, _27, buffer), h)
    times(h, _SECOND_OF_ROWS, h)
    xor(h, shift(h, _31, buffer), h)


def _scale_bits(bits: Array, n: WholeNumber) -> Array:
    """Return the upper 64 bits of `bits` times n, n at most 2³², without 128-bit numbers."""
    n = np.asarray(n, np.uint64)
    low = bits & _LOWER_HALF
    np.multiply(low, n, low)
    np.right_shift(low, _32, low)
    high: Array = np.right_shift(bits, _32)
    np.multiply(high, n, high)
    np.add(high, low, high)
    np.right_shift(high, _32, high)
    return high


def _cumulate(weights: Sequence[float]) -> list[Any]:
    values = [value.item() if hasattr(value, "item") else value for value in weights]
    for index, value in enumerate(values):
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            text = excerpt(value)
            raise ConfigError(f"weights[{index}] must be a number from 0 up, got {text}")
    are_integers = all(type(value) is int for value in values)
    sums = list(itertools.accumulate(values))
    total = sums[-1] if sums else 0
    if not total:
        raise ConfigError("weights must have one above 0")
    if total > (_MAX_N if are_integers else 1.7e308):
        raise ConfigError(f"the sum of weights is too large: {total}")
    return sums


def _last_index(sums: list[Any]) -> int:
    """Return the last index with a weight: rounding may raise a share to the total."""
    return sums.index(sums[-1])


def _count(n: object) -> int:
    if type(n) is not int or not 1 <= n <= _MAX_N:
        raise ConfigError(f"n must be a whole number from 1 to 2**32, got {excerpt(n)}")
    return n


def _checked_word(name: str, value: object) -> int:
    """Return a checked 64-bit word; numpy's integers are allowed, as arrays have citizens."""
    if type(value) is not int and hasattr(value, "__index__") and not isinstance(value, bool):
        value = value.__index__()
    if type(value) is not int or not 0 <= value <= _MASK:
        raise ConfigError(f"{name} must be a whole number from 0 to 2**64-1, got {excerpt(value)}")
    return value

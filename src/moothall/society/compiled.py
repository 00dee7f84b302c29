"""Loops that numba compiles, where it is installed, for populations of many citizens.

Each gives the same values as the numpy code beside its only call, which says what they are.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Final

from moothall.society.arrays import np

logger: logging.Logger = logging.getLogger("moothall.society")

LEAST: Final = 50_000
"""Populations of fewer citizens gain less than it takes to load what was compiled."""

ACTIVE = False
"""Whether the loops are compiled: else nobody calls them."""


def use(citizens: int) -> None:
    """Compile the loops at their first calls, if numba is there and a population is large."""
    global ACTIVE
    if ACTIVE or citizens < LEAST or (njit := _njit()) is None:
        return
    for each in (mix, draw, order, total, choice, strength, slot_of, best_of):
        try:
            made = njit(nogil=True, cache=True)(each)
        except RuntimeError:  # no folder to keep what is compiled in
            made = njit(nogil=True)(each)
        globals()[each.__name__] = made
    ACTIVE = True


@cache
def _njit() -> Any:
    """Return numba's compiler; None without numba, or if it cannot be loaded."""
    try:
        from numba import njit
    except ModuleNotFoundError:
        return None
    except Exception as error:  # it does not fit another package that is installed
        logger.warning(
            "numba cannot be loaded (%s: %s): numpy computes the same, more slowly",
            type(error).__name__,
            error,
        )
        return None
    return njit


# -- random numbers --------------------------------------------------------------------------------


def mix(word: Any) -> Any:
    """Add the constant and mix."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def draw(words: Any, start: Any, draws: Any, bounds: Any) -> None:
    """Turn citizens into their random numbers; `draws` and `bounds` are of one or of all.

    No bounds give all 64 bits.
    """
    of_each, bound_each = int(len(draws) > 1), int(len(bounds) > 1)
    for i in range(len(words)):
        bits = mix(mix(words[i] ^ start) ^ draws[i * of_each])
        if len(bounds):
            bound = bounds[i * bound_each]
            low = ((bits & np.uint64(0xFFFFFFFF)) * bound) >> np.uint64(32)
            bits = ((bits >> np.uint64(32)) * bound + low) >> np.uint64(32)
        words[i] = bits


# -- places ----------------------------------------------------------------------------------------


def order(place: Any, places: int) -> Any:
    """Return each place's start in the order by place, that order, and each row's rank in it."""
    starts = np.zeros(places + 2, np.int32)
    for row in range(len(place)):
        if place[row] >= 0:
            starts[place[row] + 1] += 1
    for at in range(places):
        starts[at + 1] += starts[at]
    found = np.full(max(starts[places], 1), -1, np.int32)
    stands = np.zeros(len(place), np.int32)
    ends = starts[:places].copy()
    for row in range(len(place)):
        at = place[row]
        if at >= 0:
            found[ends[at]] = row
            stands[row] = ends[at]
            ends[at] += 1
    starts[places + 1] = 0
    return starts, found, stands


# -- relations -------------------------------------------------------------------------------------


def total(friends: Any, strengths: Any, mask: int, index: Any) -> Any:
    """Return the sum of each row's strengths."""
    found = np.zeros(len(index), np.int64)
    for i in range(len(index)):
        row = index[i]
        for slot in range(friends.shape[1]):
            if friends[row, slot] == 0:
                break
            found[i] += strengths[row, slot] & mask
    return found


def choice(friends: Any, strengths: Any, mask: int, index: Any, share: Any) -> Any:
    """Return for each row the friend where the summed strength first exceeds `share`."""
    found = np.zeros(len(index), np.int32)
    for i in range(len(index)):
        row, rest = index[i], share[i]
        for slot in range(friends.shape[1]):
            if friends[row, slot] == 0:
                break
            rest -= strengths[row, slot] & mask
            if rest < 0:
                found[i] = friends[row, slot]
                break
    return found


def strength(friends: Any, strengths: Any, mask: int, index: Any, codes: Any) -> Any:
    """Return each row's strengths with others."""
    found = np.zeros(codes.shape, np.int64)
    for i in range(len(index)):
        row = index[i]
        for slot in range(friends.shape[1]):
            friend = friends[row, slot]
            if friend == 0:
                break
            for other in range(codes.shape[1]):
                if codes[i, other] == friend:
                    found[i, other] = strengths[row, slot] & mask
    return found


def slot_of(friends: Any, index: Any, codes: Any) -> Any:
    """Return each row's slot of a code, else its first empty slot, else the number of slots."""
    found = np.empty(len(index), np.int64)
    for i in range(len(index)):
        slot = 0
        while slot < friends.shape[1]:
            friend = friends[index[i], slot]
            if friend == codes[i] or friend == 0:
                break
            slot += 1
        found[i] = slot
    return found


# -- the feed --------------------------------------------------------------------------------------


def best_of(
    bonus: Any, about: Any, base: Any, follow: Any, of_author: Any, own: Any, more: int, most: int
) -> Any:
    """Return each row's best keys of the hot posts, the best first; −1 for a post of its own."""
    keys = np.empty((len(bonus), most), np.int64)
    for row in range(len(bonus)):
        count = 0
        for post in range(len(base)):
            key = bonus[row, about[post]] + base[post]
            if (follow[row] >> of_author[post]) & np.uint64(1):
                key += more
            if own[post] == row:
                key = -1
            if count == most and key <= keys[row, most - 1]:
                continue
            at = count if count < most else most - 1
            while at > 0 and keys[row, at - 1] < key:
                keys[row, at] = keys[row, at - 1]
                at -= 1
            keys[row, at] = key
            count = min(count + 1, most)
    return keys

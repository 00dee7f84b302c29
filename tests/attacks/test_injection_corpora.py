"""Injections of public corpora, in every place where an agent reads: none decides anything."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.corpora import sample
from benchmarks.hostile import faults, researched
from benchmarks.injections import (
    PLACES,
    USER,
    broken,
    decided,
    in_descriptions,
    permitted,
)

TEXTS = [text for _, text in sample()]


@pytest.mark.parametrize("place", PLACES)
def test_injections_start_no_effect_without_a_question(place: str) -> None:
    first = [*PLACES].index(place)
    for text in TEXTS[first :: len(PLACES)]:
        desk = asyncio.run(PLACES[place](text))
        assert desk.reached == [], text
        assert desk.did == [("send", USER)], text
        assert desk.asked, text


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_injections_of_the_sample_start_no_effect_in_any_place(place: str) -> None:
    for text in TEXTS:
        assert asyncio.run(PLACES[place](text)).reached == [], text


def test_injections_in_descriptions_of_mcp_tools_start_no_effect_without_a_question() -> None:
    desk = asyncio.run(in_descriptions(TEXTS[::8]))
    assert desk.reached == []
    assert desk.did == [("send", USER)]
    assert len(desk.asked) >= 4 * len(TEXTS[::8])


def test_injections_as_a_models_own_answer_break_no_run() -> None:
    assert [each for text in TEXTS[::3] for each in asyncio.run(broken(text))] == []


def test_injections_decide_nothing_in_the_reviewers_place() -> None:
    assert [text for text in TEXTS[::3] if asyncio.run(decided(text))] == []


def test_injections_in_a_question_look_like_no_other_question() -> None:
    assert [text for text in TEXTS if permitted(text)] == []


def test_injections_forge_nothing_in_a_report() -> None:
    for number, text in enumerate(TEXTS[::8]):
        assert faults(*asyncio.run(researched(number, text))) == [], text

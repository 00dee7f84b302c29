"""Hostile pages, read by a model that obeys them all: see benchmarks/hostile.py for 200 of them."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.hostile import OWN, PLACES, faults, researched


@pytest.mark.parametrize("number", range(len(OWN)))
def test_hostile_page_reaches_nothing_whatever_the_model_obeys(number: int) -> None:
    for place in (0, 2, 4):
        at = number + place * len(PLACES) + place
        report, called, read = asyncio.run(researched(at, OWN[number]))
        assert "look" in called
        assert report.citations or "[unsupported]" in report.markdown
        assert faults(report, called, read) == []

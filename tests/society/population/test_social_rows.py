"""Meetings, messages, relations and opinions in columns: the same as citizen by citizen."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.society.population.pairs import CITY, Todo, all_equal

from moothall.society.blocks.social import SocialBlock, SocialBlockParams
from moothall.society.blocks.talk_block import TOPICS, opinion_after
from moothall.society.population.population import Population

QUICK = settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
levels = st.sampled_from([0, 1, 300, 300, 999, 1000])
people = st.lists(
    st.fixed_dictionaries(
        {
            "relations": st.dictionaries(st.integers(1, 14).map(str), levels, max_size=3),
            "opinions": st.dictionaries(
                st.sampled_from(TOPICS), st.sampled_from([-1000, -300, -1, 0, 2, 300, 1000])
            ),
            "profile": st.fixed_dictionaries(
                {
                    "interests": st.dictionaries(st.sampled_from(TOPICS), levels),
                    "age": st.sampled_from([0, 2, 3, 12, 13, 40, 40, 40]),
                }
            ),
            "place": st.integers(0, 2),
        }
    ),
    min_size=6,
    max_size=14,
)
params = st.builds(
    SocialBlockParams,
    here=st.sampled_from([0, 600, 1000]),
    contact=st.sampled_from([1, 40, 1000]),
    fading=st.sampled_from([0, 5, 1000]),
    friends=st.integers(3, 5),
    bound=st.sampled_from([0, 500, 2000]),
    pull=st.sampled_from([0, 300, 1000]),
)


def social(people: list[dict[str, Any]], params: SocialBlockParams, seed: int = 3) -> Any:
    def make() -> tuple[Population, list[Any]]:
        count = len(people)
        home = np.array([each["place"] for each in people])
        made = Population(
            {"money": np.zeros(count, np.int64), "home": home.astype(np.int32)},
            CITY,
            [Todo(), SocialBlock(block_params=params)],
            seed=seed,
        )
        for row, each in enumerate(people):
            known = {id: s for id, s in each["relations"].items() if int(id) <= count}
            made.pull(row, {**each, "relations": known})
        return made, []

    return make


@pytest.mark.long
@given(people, params, st.integers(0, 5))
@QUICK
def test_meeting_hearing_and_fading_are_the_same(
    people: list[dict[str, Any]], params: SocialBlockParams, seed: int
) -> None:
    asyncio.run(all_equal(social(people, params, seed), 30))


@pytest.mark.long
def test_relations_beyond_the_most_are_the_same_in_rows() -> None:
    crowd = [
        {
            "relations": {str(1 + (row + 1 + each) % 22): 300 for each in range(row % 13)},
            "opinions": {},
            "profile": {"interests": {}},
            "place": row % 3,
        }
        for row in range(22)
    ]
    few = SocialBlockParams(friends=18, contact=40)
    friends = asyncio.run(all_equal(social(crowd, few), 100))[-1]["friends"]
    assert friends[:, 8].all()
    assert friends[:, 17].any()  # and then the weakest goes


@given(
    *[st.sampled_from([-1000, -301, -1, 0, 1, 400, 1000])] * 2,
    st.sampled_from([0, 400, 2000]),
    st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_opinions_of_many_move_as_each_does(mine: int, other: int, bound: int, pull: int) -> None:
    found = opinion_after(np.array([mine, 0]), np.array([other, 0]), bound, pull)
    assert found.tolist() == [opinion_after(mine, other, bound, pull), 0]

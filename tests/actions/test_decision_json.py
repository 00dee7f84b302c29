"""The JSON forms of an approver's decisions, which journals, commands and doors read and write."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import Always, AlwaysInRun, ChangedArgs, Later, NeverInRun, Refused
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.foundation.errors import ConfigError


@pytest.mark.parametrize(
    ("data", "decision"),
    (
        (True, True),
        ({"permitted": "checked by phone"}, True),
        ({"permitted": ""}, True),
        (False, False),
        ({"refused": "above the limit"}, Refused("above the limit")),
        ({"refused": ""}, Refused("")),
        ({"always": True}, Always()),
        ({"always_in_run": True}, AlwaysInRun()),
        ({"always_in_run": True, "permitted": "a routine"}, AlwaysInRun()),
        ({"never_in_run": True}, NeverInRun()),
        ({"args": {"coins": 2}}, ChangedArgs({"coins": 2})),
        ({"args": {}}, ChangedArgs({})),
        ({"args": {"coins": 2}, "permitted": "less"}, ChangedArgs({"coins": 2})),
    ),
)
def test_decision_in_json_is_read(data: Any, decision: Any) -> None:
    found = DECISION_KINDS.read(data)
    assert (type(found), found) == (type(decision), decision)


@pytest.mark.parametrize(
    "data",
    (
        *(None, 1, 1.0, 0, "", "true", "yes", "permitted", [], [True], {}, {"": True}),
        *({"permitted": each} for each in (True, None, 1, {}, ["x"])),
        *({"refused": each} for each in (True, None, 1)),
        *({"always": each} for each in (False, None, 1, "true", {}, [True])),
        *({"always_in_run": each} for each in (False, None, 1, "true", {}, [True])),
        *({"never_in_run": each} for each in (False, None, 1, "true", {}, [True])),
        *({"args": each} for each in (None, True, [], "x", [["a", 1]])),
        *({"permit": True}, {"approved": True}, {"True": True}, {"Permitted": "x"}),
        {"permitted": "x", "refused": "y"},
        {"permitted": "x", "always": True},
        {"permitted": "x", "more": 1},
        {"refused": "x", "always": True},
        {"always": True, "args": {}},
        {"always": True, "more": 1},
        {"always": True, "always_in_run": True},
        {"always_in_run": True, "more": 1},
        {"always_in_run": True, "permitted": True},
        {"always_in_run": True, "refused": "x"},
        {"always_in_run": True, "args": {}},
        {"never_in_run": True, "always_in_run": True},
        {"never_in_run": True, "permitted": "x"},
        {"args": {}, "always_in_run": True, "permitted": "x"},
        {"args": {}, "permitted": True},
        {"args": {}, "permitted": "x", "more": 1},
        {"args": {}, "permitted": "x", "always": True},
        {"args": {}, "refused": "x"},
    ),
)
def test_decision_in_any_other_json_refuses_and_is_no_answer(data: Any) -> None:
    assert DECISION_KINDS.read(data) is False
    with pytest.raises(ConfigError, match=r"the answer to an approval must be True, False, Ref"):
        DECISION_KINDS.to_json(data)


@pytest.mark.parametrize(
    ("decision", "data"),
    (
        (True, True),
        (False, False),
        (Refused("no"), {"refused": "no"}),
        (Refused(""), False),
        (Always(), {"always": True}),
        (AlwaysInRun(), {"always_in_run": True}),
        (NeverInRun(), {"never_in_run": True}),
        (ChangedArgs({"coins": 2}), {"args": {"coins": 2}}),
        ({"permitted": "why"}, {"permitted": "why"}),
        ({"args": {"coins": 2}, "permitted": "why"}, {"args": {"coins": 2}, "permitted": "why"}),
        ({"refused": ""}, {"refused": ""}),
        ({"always": True}, {"always": True}),
    ),
)
def test_decision_is_written_as_json_and_json_of_a_decision_as_it_is(
    decision: Any, data: Any
) -> None:
    assert DECISION_KINDS.to_json(decision) == data


@pytest.mark.parametrize(
    "decision", (Later(), Always, Refused, object(), ChangedArgs({"x": object()}))
)
def test_decision_that_is_none_has_no_json(decision: Any) -> None:
    with pytest.raises(ConfigError):
        DECISION_KINDS.to_json(decision)

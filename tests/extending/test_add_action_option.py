"""An option of an action stands in one file, with its default: methods and `Action` read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    ("    help: Any\n", "    most: int\n    quick: bool\n"),
    (
        "    addresses: Sequence[str] | None = None\n",
        "    most: int = 7\n    quick: bool = False\n",
    ),
)
USES = """
from moothall import Action, Agent, ConfigError, action

class Desk(Agent):
    @action(most=3, quick=True)
    async def ask(self, text: str) -> str:
        "Ask."
        return text

    @action
    async def say(self, text: str) -> str:
        "Say."
        return text

offered = Desk("Ann").all_offers()
assert (offered["ask"].most, offered["ask"].quick) == (3, True)
assert (offered["say"].most, offered["say"].quick) == (7, False)
assert Action("ask", print, "Ask.", {}, most=2).most == 2
try:
    Action("ask", print, "Ask.", {}, quick=1)
except ConfigError as error:
    assert "quick= must be True or False, got 1" in str(error), error
else:
    raise AssertionError
"""


def test_action_option_added_in_one_file_is_taken_and_checked_by_methods_and_action(
    added: Added,
) -> None:
    added({"actions/marking.py": ADDED})("-c", USES)

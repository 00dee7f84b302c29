"""What named callers may do stands in one file: programs, companies and the command read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

RIGHT = (
    ("    approves: Iterable[str]\n", "    deletes: Iterable[str]\n"),
    (
        "    def permits(self, caller: str) -> bool:\n",
        '        return caller in self._rights["approves"] or caller in (LOCAL, TOKEN)\n\n'
        "    def may_delete(self, caller: str) -> bool:\n"
        '        return caller in self._rights["deletes"]\n\n'
        "    def _(self, caller: str) -> bool:\n",
    ),
)
USES = """
from moothall import ConfigError, ReActAgent, ScriptedModel
from moothall.serving import asgi
from moothall.serving.company.settings import HTTPSettings
from moothall.serving.doors.callers import Callers

agent = ReActAgent("a", ScriptedModel([]))
tokens = {"ada": "a" * 20, "bob": "b" * 20}
assert asgi(agent, token=tokens, deletes=["ada"]) is not None
try:
    asgi(agent, token=tokens, deletes=["eve"])
except ConfigError as error:
    assert str(error) == "deletes= must name callers of token= (ada, bob), got ['eve']", error
else:
    raise AssertionError
callers = {"ada": {"token": "a", "deletes": True}, "bob": {"token": "b"}}
http = HTTPSettings(listen="127.0.0.1:0", callers=callers)
of_company = Callers(tokens, **http.rights())
assert of_company.may_delete("ada") and not of_company.may_delete("bob")
tokens, rights = Callers.read("ada secret deletes approves\\nbob other\\n")
assert rights == {"deletes": ["ada"], "approves": ["ada"]}
"""


@pytest.mark.long
def test_caller_right_added_in_one_file_is_known_to_programs_companies_and_the_command(
    added: Added,
) -> None:
    added({"serving/doors/callers.py": RIGHT})("-c", USES)

"""How the doors tell an error of ours stands in one list, which each of them reads.

A user cannot add to it, so this test adds to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    ("    ContextOverflow,\n", "    MailboxFull,\n"),
    (
        "_CODES: Final[dict[type[Exception], _RefusalCodes]] = {\n",
        '    MailboxFull: _RefusalCodes("RATE_LIMIT_EXCEEDED", "busy", "requests", 429, "busy"),\n',
    ),
)
USES = """
from mcp import MCPError

from moothall import MailboxFull
from moothall.serving.a2a.wire import A2AFault
from moothall.serving.doors.a2a import protocol_faults
from moothall.serving.doors.mcp import protocol_refusals
from moothall.serving.doors.openai.client_outcome import bad_request_of

full = MailboxFull("agent 'a' is busy")
try:
    with protocol_faults():
        raise full
except A2AFault as fault:
    assert (fault.reason, fault.code, str(fault)) == ("RATE_LIMIT_EXCEEDED", -32029, str(full))
try:
    with protocol_refusals():
        raise full
except MCPError as refused:
    assert (refused.error.code, refused.error.message) == (-32029, str(full))
told = bad_request_of(full, "r")
assert (told.error["code"], told.status) == ("busy", 429)
"""


def test_error_added_to_the_refusals_is_told_by_each_door(added: Added) -> None:
    added({"serving/doors/protocols.py": ADDED})("-c", USES)

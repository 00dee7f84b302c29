"""What travels beside a message over a broker is one row, which writing and reading go by.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

FIELD = (("    within: str | None = None\n", "    tone: str | None = None\n"),)
ROW = (
    (
        '    HeaderField("within", "within", (SEND, REQUEST), None, _text, is_resent=True),\n',
        '    HeaderField("tone", "tone", (SEND, REQUEST, ANSWER), None, _text, is_resent=True),\n',
    ),
)
USES = """
from moothall import Agent, NativeSpace, action
from moothall.actions.message import Envelope
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.amqp_options import Names
from moothall.spaces.amqp.dead_letters import DeadLetter

Envelope.from_message({"to": "b", "action": {"name": "do", "args": {}}}, "a")
sent = Envelope("a", "b", "do", {}, tone="loud", within="r")
body = wire.encode(sent)
made = wire.Outbound("key", wire.SEND, "agent.b", body, headers=wire.headers_of(wire.SEND, sent))
assert wire.read_message(made.properties(), body).envelope == sent
kept, _ = wire.read_stored(wire.stored_bytes_of(made.properties(), body))
assert kept.envelope == sent
dead = DeadLetter.read(Names("moothall"), made.properties(), body)
assert dead.headers == {"tone": "loud", "within": "r"}


class Adder(Agent):
    @action
    def add(self, a: int, b: int) -> int:
        return a + b


with NativeSpace() as space:
    one, other = space.add(Adder("one")), space.add(Adder("other"))
    assert one.ask("other", "add", a=1, b=2).result() == 3
"""


def test_amqp_part_beside_a_message_is_read_stored_and_sent_again(added: Added) -> None:
    run = added({"actions/message.py": FIELD, "spaces/amqp/wire.py": ROW})
    run("-c", USES)

"""An option of the broker stands in one file: spaces, companies, variables, commands read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    (
        '    heartbeat: int = field(default=60, metadata=_read_from("AMQP_HEARTBEAT"))\n',
        '    label: str = field(default="", metadata=_read_from("AMQP_LABEL", "Shown label."))\n'
        '    attempts: int | None = field(default=None, metadata=_read_from("AMQP_ATTEMPTS"))\n',
    ),
)
USES = """
from moothall import AMQPOptions
from moothall.serving.company.settings import BrokerSettings

made = BrokerSettings(host="one", tls=True, label="shop", attempts=3, password="secret")
assert made.options() == {
    "hostname": "one", "use_ssl": True, "label": "shop", "attempts": 3, "password": "secret"
}
assert "secret" not in repr(made)
assert AMQPOptions(**made.options()).attempts == 3
assert AMQPOptions.from_environment({"AMQP_LABEL": "mine"}).label == "mine"
assert AMQPOptions.from_environment({"AMQP_ATTEMPTS": "3"}).attempts == 3
for wrong in ({"attempts": "3"}, {"use_ssl": True}, {"heartbeat": True}):
    try:
        BrokerSettings(**wrong)
    except ValueError:
        continue
    raise AssertionError(wrong)
"""


def test_broker_option_added_in_one_file_is_known_to_spaces_companies_and_commands(
    added: Added,
) -> None:
    run = added({"spaces/amqp/amqp_options.py": ADDED})
    run("-c", USES)
    options = run("-m", "moothall", "dead-letters", "--help")
    assert "--label TEXT     Shown label." in options
    assert "--attempts" not in options

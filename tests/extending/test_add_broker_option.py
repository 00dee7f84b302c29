"""An option of the broker stands in one file: the space, companies and the variables read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    ('    "heartbeat": "AMQP_HEARTBEAT",\n', '    "name": "AMQP_NAME",\n'),
    ("    heartbeat: int = 60\n", '    name: str = ""\n    attempts: int | None = None\n'),
)
USES = """
from moothall import AMQPOptions
from moothall.serving.company.settings import BrokerSettings

made = BrokerSettings(host="one", tls=True, name="shop", attempts=3, password="secret")
assert made.options() == {
    "hostname": "one", "use_ssl": True, "name": "shop", "attempts": 3, "password": "secret"
}
assert "secret" not in repr(made)
assert AMQPOptions(**made.options()).attempts == 3
assert AMQPOptions.from_environment({"AMQP_NAME": "mine"}).name == "mine"
for wrong in ({"attempts": "3"}, {"use_ssl": True}, {"heartbeat": True}):
    try:
        BrokerSettings(**wrong)
    except ValueError:
        continue
    raise AssertionError(wrong)
"""


def test_broker_option_added_in_one_file_is_known_to_spaces_and_companies(added: Added) -> None:
    added({"spaces/amqp/amqp_options.py": ADDED})("-c", USES)

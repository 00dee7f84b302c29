"""A kind of agent that `company.yaml` names, as the built-in ones are named.

A user's own class needs none (`ref:`), so this test adds to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    (
        "KINDS: Final[dict[str, Maker]] = {\n",
        '    "silent": lambda id, options, folder: Agent(id, **options),\n',
    ),
)
USES = """
import asyncio
from pathlib import Path
from moothall.serving import Company

Path("company.yaml").write_text(
    "agents: {Ann: {kind: silent, options: {receive_own_broadcasts: false}}}"
)

async def main():
    async with Company.from_yaml("company.yaml") as company:
        print(company.health()["ready"], *company.agents)

asyncio.run(main())
"""


def test_kind_of_agent_added_to_the_kinds_is_named_in_a_companys_file(added: Added) -> None:
    assert added({"serving/company/agent_kinds.py": ADDED})("-c", USES) == "True Ann\n"

"""An option of all models behind servers stands in one file: their classes take it from there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

OPTION = (
    ("    timeout: float\n", "    purpose: str\n"),
    ("    timeout: float = 600.0\n", '    purpose: str = ""\n'),
)
ACTS = (
    (
        "        self._server = settings.server  # the one that gets back what it gave\n",
        "        self._purpose = settings.purpose\n",
    ),
    (
        '        own_headers |= self._own_headers(key or "none")\n',
        '        own_headers |= {"X-Purpose": self._purpose}\n',
    ),
)
USES = """
import asyncio
from moothall import AnthropicModel, DefinitionError, OpenAIModel

for kind in (OpenAIModel, AnthropicModel):
    made = kind("m", "http://127.0.0.1:9/v1", "key", purpose="tests", timeout=5.0)
    assert (asyncio.run(made._headers())["X-Purpose"], made.timeout) == ("tests", 5.0)
    try:
        kind("m", "http://127.0.0.1:9/v1", "key", purpos="tests")
    except DefinitionError as error:
        text = f"{kind.__name__} has no argument purpos= (did you mean 'purpose'?)"
        assert str(error) == text, error
    else:
        raise AssertionError
"""


def test_server_option_added_in_two_files_is_taken_by_every_model_behind_a_server(
    added: Added,
) -> None:
    files = {"models/remote/server_settings.py": OPTION, "models/remote/remote.py": ACTS}
    added(files)("-c", USES)

"""An option of how requests come to the doors stands in two files: programs and companies have it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

FRONT = (
    ("    origins: Iterable[str]\n", "    banner: str\n"),
    ("    pages: tuple[str, ...] = ()\n", '    banner: str = ""\n'),
    ("tuple(pages)", ', options.get("banner", "")'),
)
FIELD = (("    public_url: StrictStr | None = None\n", '    banner: StrictStr = ""\n'),)
USES = """
from moothall import DefinitionError, ReActAgent, ScriptedModel
from moothall.serving import asgi
from moothall.serving.company.settings import HTTPSettings
from moothall.serving.doors.front import Front

agent = ReActAgent("a", ScriptedModel([]))
assert asgi(agent, token="t" * 20, banner="Hello") is not None
http = HTTPSettings(listen="127.0.0.1:0", banner="Hello")
assert Front.of(**http.front_options()).banner == "Hello"
try:
    asgi(agent, baner="Hello")
except DefinitionError as error:
    assert str(error) == "asgi has no argument baner= (did you mean 'banner'?)", error
else:
    raise AssertionError
"""


@pytest.mark.long
def test_front_option_added_in_two_files_is_known_to_programs_and_companies(added: Added) -> None:
    added({"serving/doors/front.py": FRONT, "serving/company/settings.py": FIELD})("-c", USES)

"""A provider with a form of its own is a file and a row: names, errors and spans read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

FORM = """
from moothall.models.remote.openai import OpenAIModel

class AcmeModel(OpenAIModel):
    pass

def of_provider(provider, name, api_key, **options):
    return AcmeModel(name, api_key=api_key, provider=provider, **options)
"""
ROW = (
    (
        '    "ollama": Provider("of an Ollama server", "http://localhost:11434/v1"),\n',
        """    "acme": Provider(
        *("Acme's", "https://api.acme.example/v1", "ACME_API_KEY"),
        otel="acme.cloud",
        form="acme.AcmeModel",
        families=("anvil",),
    ),
""",
    ),
)
USES = """
from moothall import ModelError, model
from moothall.serving.telemetry.span_content import provider_of

acme = model("acme:anvil-2", api_key="k")
assert (type(acme).__name__, acme.name) == ("AcmeModel", "acme:anvil-2")
assert acme.base_url == "https://api.acme.example/v1"
assert provider_of(acme) == "acme.cloud"
for name, text in (
    ("anvil-2", "did you mean 'acme:anvil-2'?"),
    ("acme:anvil-2", "there is no key: set ACME_API_KEY"),
):
    try:
        model(name)
    except ModelError as error:
        assert text in str(error), error
    else:
        raise AssertionError(name)
"""


def test_provider_with_a_form_of_its_own_is_a_file_and_a_row(added: Added) -> None:
    run = added({"models/remote/acme.py": (("", FORM),), "models/providers.py": ROW})
    run("-c", USES)
    assert "acme:NAME" in run("-m", "moothall", "models")

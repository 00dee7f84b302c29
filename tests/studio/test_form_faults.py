"""What a filled form cannot carry out is told at the field that is at fault, and at no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from moothall import ConfigError, ModelError
from moothall.studio import Field, PageForm, Studio
from studio.conftest import a_studio

OPINIONS = Path(__file__).parents[2] / "examples" / "opinions.yaml"


@pytest.fixture(scope="module")
def studio_with_forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("studio")
    (folder / "journal").mkdir()
    with a_studio(folder / "journal") as studio:
        yield studio


def fault(form: PageForm, **values: Any) -> tuple[str | None, str]:
    """The field at fault of what is filled in, and what is said of it."""
    filled = {each.name: each.value for each in form.fields} | values
    with pytest.raises(ConfigError) as caught:
        form.begin(filled)
    return caught.value.argument, str(caught.value)


@pytest.mark.parametrize(
    ("tab", "form", "values", "field"),
    (
        ("act", "new", {"task": " "}, "task"),
        ("act", "new", {"task": "a", "root": "/nowhere"}, "root"),
        ("act", "new", {"task": "a", "root": "/etc/hostname"}, "root"),
        ("act", "new", {"task": "model must", "model": "folder"}, "model"),
        ("act", "new", {"task": "a", "model": "openai:"}, "model"),
        ("act", "new", {"task": "a", "model": "http://user@h/v1#m"}, "model"),
        ("act", "new", {"task": "a", "review": "nobody:model"}, "review"),
        ("act", "new", {"task": "a", "review": "http://h/v1"}, "review"),
        ("act", "new", {"task": "a", "max_seconds": 1e300, "max_tokens": 1}, "max_seconds"),
        ("act", "new", {"task": "a", "max_usd": 1e300}, "max_usd"),
        ("act", "new", {"task": "a", "max_tokens": "1,5"}, "max_tokens"),
        ("act", "new", {"task": "a", "max_iterations": 1.5}, "max_iterations"),
        ("research", "new", {"objectives": "\n"}, "objectives"),
        ("research", "new", {"objectives": "folder", "folder": "/nowhere"}, "folder"),
        ("research", "new", {"objectives": "the model must"}, "folder"),
        ("research", "new", {"objectives": "a", "folder": "/etc", "site": "x.org"}, "site"),
        ("research", "new", {"objectives": "a", "search_web": True, "site": "x y"}, "site"),
        ("research", "new", {"objectives": "a", "searxng": "ftp:"}, "searxng"),
        ("research", "new", {"objectives": "a", "folder": "/etc", "role": "b"}, "role"),
        ("research", "new", {"objectives": "a", "folder": "/etc", "model": "what"}, "model"),
        ("research", "new", {"objectives": "a", "folder": "/etc", "max_usd": 3}, "max_usd"),
        ("society", "new", {"citizens": 5}, "citizens"),
        ("society", "new", {"citizens": 10**9}, "citizens"),
        ("society", "new", {"days": 0}, "days"),
        ("society", "new", {"days": 0.3, "step": "1h"}, "days"),
        ("society", "new", {"seed": 2**64}, "seed"),
        ("society", "new", {"model": "days"}, "model"),
        ("society", "new", {"model": "http://127.0.0.1/v1#m", "max_calls": 0}, "max_calls"),
        ("society", "new", {"step": "2h"}, "step"),
        ("society", "experiment", {"file": " "}, "file"),
        ("society", "experiment", {"file": "none.yaml"}, "file"),
        ("society", "experiment", {"file": "a.yaml", "jobs": 0}, "jobs"),
        ("society", "experiment", {"file": str(OPINIONS), "seeds": 10**9}, "seeds"),
    ),
)
def test_fault_of_a_form_is_told_at_its_field(
    studio_with_forms: Studio, tab: str, form: str, values: dict[str, Any], field: str
) -> None:
    forms = next(each for each in studio_with_forms.tabs if each.name == tab).forms()
    at, said = fault(next(each for each in forms if each.name == form), **values)
    assert at == field, said


def test_form_of_ones_own_says_which_field_is_at_fault_whatever_its_text_has() -> None:
    def start(name: str, places: str) -> None:
        if not places:
            raise ConfigError("the name must go nowhere", argument="places")
        if places == "away":
            raise ConfigError("the name must go home", argument="no field of it")
        raise ModelError("the name must be answered")

    fields = [Field("name", "Name"), Field("places", "Places")]
    form = PageForm(name="new", title="New", fields=fields, start=start)
    assert fault(form) == ("places", "the name must go nowhere")
    assert fault(form, places="away") == (None, "the name must go home")
    assert fault(form, places="home") == (None, "the name must be answered")


def test_fault_stands_below_its_field_and_not_below_the_form(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("tab", name="Act and review").click()
    form = page.locator("#act-new")
    form.get_by_label("Task", exact=True).fill("Look")
    folder = form.get_by_label("Folder that it works on")
    folder.fill("/nowhere")
    form.get_by_role("button", name="Start", exact=True).click()
    told = form.get_by_role("alert")
    expect(told).to_contain_text("does not exist")
    expect(folder).to_be_focused()
    field, below = folder.bounding_box(), told.bounding_box()
    assert field
    assert below
    assert 0 <= below["y"] - field["y"] - field["height"] < 12
    folder.fill("/")
    expect(told).to_be_hidden()

"""A tab of a user's own in the studio: its form and its routes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from moothall.foundation.errors import ConfigError
from moothall.studio import Field, PageForm, Studio, Tab

TOKEN = "t" * 20


class WeatherTab(Tab):
    """Says how the weather is."""

    name = "weather"
    title = "Weather"
    town = ""

    def routes(self, router: Any) -> None:
        """Add the weather of now."""
        router.get("/now")(lambda: {"weather": "rain"})

    def forms(self) -> list[PageForm]:
        """Return a form that asks for a town."""
        town = Field(name="town", label="Town", hint="Utrecht")
        return [PageForm(name="ask", title="Ask for the weather", fields=[town], start=self.ask)]

    def ask(self, town: str) -> str | None:
        """Note the town."""
        if not town:
            raise ConfigError("the town is empty: say which")
        self.town = town
        return None


def test_tab_of_a_users_own_is_on_the_page_and_answers(tmp_path: Path) -> None:
    with Studio() as studio:
        weather = WeatherTab()
        studio.tabs.append(weather)
        url = studio.launch(
            0, journal=tmp_path / "runs.db", token=TOKEN, prevent_thread_lock=True, quiet=True
        ).partition("?")[0]

        def asked(path: str, given: Any = None) -> Any:
            known = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            body = None if given is None else json.dumps(given).encode()
            try:
                with urlopen(Request(url + path, body, known), timeout=20) as answer:
                    return json.load(answer)
            except HTTPError as error:
                return json.load(error)

        assert asked("studio/weather/now") == {"weather": "rain"}
        (form,) = asked("studio/weather/forms")
        assert (form["title"], form["fields"][0]["label"]) == ("Ask for the weather", "Town")
        begin = "studio/weather/forms/ask"
        wrong = {"error": "the town is empty: say which", "field": "town"}
        assert asked(begin, {"town": ""}) == wrong
        assert asked(begin, {"town": ["x"]})["field"] == "town"
        assert asked(begin, {"city": "x"})["error"] == "the form has no field 'city'"
        assert asked("studio/weather/forms/x", {})["error"].startswith("there is no form 'x'")
        assert asked(begin, {"town": "Utrecht"}) == {"run": None}
        assert weather.town == "Utrecht"
        page = Request(url + "weather", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(page, timeout=20) as answer:
            assert "Weather" in answer.read().decode()

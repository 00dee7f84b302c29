"""A tab of a user's own in the studio: its components and its routes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from moothall.studio import Studio

TOKEN = "t" * 20


class WeatherTab:
    """Says how the weather is."""

    name = "weather"
    title = "Weather"

    def routes(self, router: Any) -> None:
        """Add the weather of now."""
        router.get("/now")(lambda: {"weather": "rain"})

    def form(self) -> None:
        """Add a line of text."""
        import gradio

        gradio.Markdown("How the weather is")


def test_tab_of_a_users_own_is_on_the_page_and_answers(tmp_path: Path) -> None:
    with Studio() as studio:
        studio.tabs.append(WeatherTab())
        url = studio.launch(
            0, journal=tmp_path / "runs.db", token=TOKEN, prevent_thread_lock=True, quiet=True
        ).partition("?")[0]

        def asked(path: str) -> Any:
            request = Request(url + path, headers={"Authorization": f"Bearer {TOKEN}"})
            with urlopen(request, timeout=20) as answer:
                return json.load(answer)

        assert asked("studio/weather/now") == {"weather": "rain"}
        parts = asked("config")["components"]
    assert [
        each["props"]["label"]
        for each in parts
        if each["type"] == "tabitem" and each["props"]["id"] in ("space", "weather")
    ] == ["Space", "Weather"]
    assert "How the weather is" in [each["props"].get("value") for each in parts]
    assert "studio-weather" not in [each["props"].get("elem_id") for each in parts]

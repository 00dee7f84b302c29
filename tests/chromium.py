"""The browser of the tests: Chromium without the interface around the page, at half the cost."""

from __future__ import annotations

from pathlib import Path

_PLACES = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
CHROMIUM = next((each for each in _PLACES if Path(each).exists()), _PLACES[-1])
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]

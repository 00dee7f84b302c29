"""What the pages of a studio are told."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moothall.studio import Studio


class Told:
    """What pages are told, one after the other."""

    def __init__(self, studio: Studio) -> None:
        self._feed = studio.feed
        self._after = 0

    def until(self, topic: str, **wanted: Any) -> dict[str, Any]:
        """The next event that is so."""
        waits = asyncio.wait_for(self._until(topic, wanted), 30)
        with ThreadPoolExecutor(1) as thread:  # Playwright has a loop run in this one
            return thread.submit(asyncio.run, waits).result()

    async def _until(self, topic: str, wanted: dict[str, Any]) -> dict[str, Any]:
        async for frame in self._feed.frames(self._feed.epoch, self._after):
            for number, of, data in json.loads(frame)["events"]:
                self._after = number
                if of == topic and wanted.items() <= data.items():
                    return dict(data)
        raise AssertionError("the feed has ended")

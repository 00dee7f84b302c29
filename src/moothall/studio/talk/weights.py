"""The weights that agents of the person's space lack, fetched when the person asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from moothall import ConfigError, MoothallError
from moothall.build import guard
from moothall.models import ListedWeights, fetch


class MissingWeights:
    """Fetches one model's weights at a time, in a thread, and tells the pages how far it is.

    Args:
        publish: sends each state to the pages
    """

    def __init__(self, publish: Callable[[dict[str, Any]], object]) -> None:
        self._publish = publish
        self._lock = guard()
        self._states: dict[str, dict[str, Any]] = {}  # by the weights' names

    def rows(self, agents: Iterable[Any]) -> list[dict[str, Any]]:
        """Return what the models of agents lack, with the agents' ids and how far it is."""
        lacking: dict[str, tuple[ListedWeights, list[str]]] = {}
        for agent in agents:
            weights = getattr(getattr(agent, "model", None), "missing_weights", None)
            if isinstance(weights, ListedWeights):
                lacking.setdefault(weights.name, (weights, []))[1].append(str(agent.id))
        return [
            {
                "name": weights.name,
                "title": weights.title,
                "bytes": weights.size,
                "license": weights.license,
                "agents": ids,
                **self._states.get(weights.name, {}),
            }
            for weights, ids in lacking.values()
        ]

    def begin(self, name: str, agents: Iterable[Any]) -> None:
        """Begin to fetch weights that one of the agents lacks; ConfigError for any others."""
        if name not in (each["name"] for each in self.rows(agents)):
            raise ConfigError(f"no agent of this space lacks weights called {name!r:.80}")
        with self._lock:
            if self._states.get(name, {}).get("running"):
                return
            self._states[name] = {"running": True, "doing": "asking", "done": 0, "total": None}
        threading.Thread(target=self._fetch, args=(name,), daemon=True).start()

    def _fetch(self, name: str) -> None:
        def tell(doing: str, done: int, total: int | None) -> None:
            state: dict[str, Any] = {"running": True, "doing": doing, "done": done, "total": total}
            before, self._states[name] = self._states[name], state
            steps = [
                100 * each["done"] // each["total"] for each in (before, state) if each["total"]
            ]
            if doing != before["doing"] or len({*steps}) > 1:
                self._publish({"name": name, **state})

        error = ""
        try:
            fetch(name, tell)
        except MoothallError as fault:
            error = str(fault)
        self._states[name] = {"running": False, "error": error}
        self._publish({"name": name, "running": False, "error": error})

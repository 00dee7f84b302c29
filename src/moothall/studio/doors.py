"""The tab Doors: which servers and remote agents are connected, and what is served to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moothall import ConfigError, MoothallError
from moothall.serving.doors import Served
from moothall.studio.page import STATIC, Tab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import APIRouter

    from moothall.studio.jobs import TabHub


class DoorsTab(Tab):
    """The doors of the space that the user is in, and of this process."""

    name = "doors"
    title = "Doors"
    script: Path | None = STATIC / "doors.js"

    def __init__(self, studio: TabHub) -> None:
        self._hub = studio

    def is_shown(self) -> bool:
        """Return whether something is connected or served."""
        return any(True for _ in self._connected_agents()) or bool(Served.rows_here())

    def state(self) -> dict[str, Any]:
        """Return what is `connected`, each by its id and whose tools it has, and `served`."""
        connected = []
        for agent, owner in self._connected_agents():
            row = {"id": str(agent.id), "of": owner}
            try:
                connected.append({**row, **agent.door_row()})
            except MoothallError as error:  # such as an invalid lock file
                connected.append({**row, "fault": str(error)})
        return {"connected": connected, "served": Served.rows_here()}

    def accept(self, id: str, shown_hash: str) -> dict[str, Any]:
        """Accept the definitions of a server's tools that a page has shown; return the state."""
        agent = next((each for each, _ in self._connected_agents() if str(each.id) == id), None)
        if agent is None or not hasattr(agent, "accept_offer"):
            raise ConfigError(f"there is no MCP server {id!r:.80} here")
        agent.accept_offer(shown_hash)
        return self.state()

    def _connected_agents(self) -> Iterator[tuple[Any, str | None]]:
        """Yield the agents that stand for a server, each once, with the agent whose tools it is."""
        space: Any = self._hub.user.space
        seen_ids: set[int] = set()
        for name in () if space is None else space.ids():
            agent = space.agent(name)
            sources = getattr(getattr(agent, "actions", None), "sources", ())
            for each, owner in ((agent, None), *((source, name) for source in sources)):
                if hasattr(each, "door_row") and id(each) not in seen_ids:
                    seen_ids.add(id(each))
                    yield each, owner

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; each runs in a thread."""
        from fastapi import Body

        router.get("/state")(self.state)

        @router.post("/accept")
        def accept_tools(id: str = Body(), shown_hash: str = Body()) -> dict[str, Any]:
            return self.accept(id, shown_hash)

"""The tab Space: the agents of a space, their messages, and the lines that a person writes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from moothall import BROADCAST, ConfigError, StateError, parse_slash
from moothall.build import json_text, shorten
from moothall.spaces import You, completions
from moothall.studio.page import STATIC, Tab
from moothall.studio.talk import ANSWER_FIELDS, Conversations, MissingWeights, SpaceMessages

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import APIRouter

    from moothall.build import Space
    from moothall.studio.hub import Hub

_DISCOVER_S: Final = 15.0
"""How often the agents of other processes are asked who is there: they come without a word."""
_QUEUED_CHARS: Final = 200


class StudioUser(You):
    """The person at the page, in a space: `space.add(gradio_user)`.

    The studio shows the messages of this user's space. If the space has no approver, the studio's
    cards ask for permission there.
    """

    def __init__(self, id: str, tab: SpaceTab) -> None:
        super().__init__(id)
        self._tab = tab

    async def after_add(self) -> None:
        """Show this space on the page, and nothing of the one before."""
        self.forget_offers()
        self.ids_elsewhere.clear()
        space: Any = self.space
        self._tab.show_space(space)


class SpaceTab(Tab):
    """The messages of one space, and its agents.

    Attributes:
        user: the person at the page
        messages: what was seen of the person's space
    """

    name = "space"
    title = "Space"
    script: Path | None = STATIC / "space.js"

    def __init__(self, studio: Hub) -> None:
        self._hub = studio
        self.user: StudioUser = StudioUser(studio.person, self)
        self.messages: SpaceMessages = SpaceMessages()
        self._conversations = Conversations(self.user, self.messages)
        self._missing_weights = MissingWeights(lambda state: studio.feed.publish("weights", state))
        self._line_numbers = itertools.count(1)
        self._observed_spaces: WeakSet[Space] = WeakSet()
        self._discover_at = 0.0

    def show_space(self, space: Space) -> None:
        """Show the user's space; if it has no approver, let the cards approve."""
        if space.approver is None:
            space.approver = self._hub.cards
        if space not in self._observed_spaces:  # the user may have left it, and come back
            self._observed_spaces.add(space)
            space.observe(lambda message: self._on_message(space, message))

    def _on_message(self, space: Space, message: dict[str, Any]) -> None:
        if space is not self.user.space:
            return
        self.user.note_sender(message)
        name, args = message["action"]["name"], message["action"]["args"]
        sender, to = message["from"], message["to"]
        for id in space.ids() if to == BROADCAST else self._members(to) or [to]:
            self._hub.partial_answers.watch(space.agent(id))
        ids = (message.get("id"), args.get("original_message_id"))
        # What pages and chats ask by themselves, and its answers; nothing else can hide so.
        if name in ("help", "response", "error") and You.asking in ids:
            return
        reply = self._hub.partial_answers.take_ended(sender, to) if name in ANSWER_FIELDS else None
        groups = [f"#{group}" for group, ids in space.groups().items() if sender in ids]
        seen_message = self.messages.add(message, time.time(), reply, groups)
        self._hub.feed.publish("message", seen_message.to_json())

    def agents(self) -> dict[str, Any]:
        """Return the agents of the space, and what they are handling."""
        space: Any = self.user.space
        if space is None:
            me = str(self.user.id)
            return {"space": None, "me": me, "agents": [], "groups": {}, "missing": []}
        activity = space.statistics()["agents"]
        other_agents = [{**activity.get(id, {}), "id": id} for id in self.user.other_ids()]
        for each in (each for each in other_agents if each.get("waiting")):
            each["queue"] = [_queued(message) for message in self.user.messages_to(each["id"])]
        return {
            "space": type(space).__name__,
            "me": str(self.user.id),
            "agents": other_agents,
            "groups": {f"#{name}": ids for name, ids in space.groups().items()},
            "missing": self._missing_weights.rows(self._agents()),
        }

    def _agents(self) -> list[Any]:
        """Return the agents of the space that are in this process."""
        space: Any = self.user.space
        return [] if space is None else [*filter(None, map(space.agent, space.ids()))]

    def agent_details(self, id: str) -> dict[str, Any]:
        """Return who is behind an agent: its class, its models, and what its recorded runs cost.

        Behind a group are its members. Of an agent of another process nothing is known but that it
        is elsewhere.
        """
        space: Any = self.user.space
        if group := self._members(id):
            return {"here": True, "members": group}
        agent = None if space is None else space.agent(id)
        if agent is None:
            return {"here": False}
        members = (getattr(agent, name, None) for name in ("human_agent", "reactive_agent"))
        agents = [agent, *filter(None, members), *getattr(agent, "agents", ())]
        models = [getattr(getattr(each, "model", None), "name", None) for each in agents]
        journal = getattr(agent, "journal", None)
        sums = None if journal is None else asdict(journal.sums(agent=id))
        return {
            "here": True,
            "kind": type(agent).__name__,
            "models": [*dict.fromkeys(filter(None, models))],
            "sums": sums,
        }

    def _members(self, id: str) -> list[str]:
        """Return the agents of a group `#NAME`; none if `id` is an agent's."""
        space = self.user.space
        return space.ids(group=id[1:]) if space is not None and id.startswith("#") else []

    async def help(self, id: str) -> Mapping[str, Any]:
        """Return what an agent offers, or what all members of a group do."""
        self.user.forget_offers()
        offers = [await self.user.offers_of(each) for each in self._members(id) or [id]]
        names = [name for name in offers[0] if all(name in each for each in offers)]
        return {name: offers[0][name] for name in names}

    def send(self, line: str) -> dict[str, Any] | None:
        """Send the message that a line means; return it, or None for a blank line."""
        message = parse_slash(line)
        if message is None:
            return None
        if self.user.space is None:
            raise ConfigError(
                f"{self.user.id} is in no space: space.add(gradio_user), then write here"
            )
        message["id"] = f"{self.user.id}-{next(self._line_numbers)}"
        self.user.send(message)
        return message

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call."""
        from fastapi import Body

        router.get("/messages")(self.messages.page)
        router.get("/behind")(self.agent_details)
        router.get("/help")(self.help)
        router.get("/conversations")(self._conversations.threads)

        @router.get("/conversation")
        def conversation(id: str, thread: str | None = None) -> list[dict[str, Any]]:
            return [asdict(each) for each in self._conversations.turns(id, thread or None)]

        @router.get("/agents")
        async def agents() -> dict[str, Any]:
            if not self.user.ids_elsewhere or time.monotonic() > self._discover_at:
                self._discover_at = time.monotonic() + _DISCOVER_S
                await self.user.discover()
            return await asyncio.to_thread(self.agents)

        @router.get("/complete")
        async def complete(text: str) -> dict[str, Any]:
            length, words = await completions(text, self.user.other_ids(), self.user.offers_of)
            return {"length": length, "found": words[:200]}

        @router.post("/fetch")
        def fetch(name: str = Body(embed=True)) -> dict[str, Any]:
            self._missing_weights.begin(name, self._agents())
            return {"missing": self._missing_weights.rows(self._agents())}

        @router.post("/take-back")
        def take_back(to: str = Body(embed=True), id: str = Body(embed=True)) -> dict[str, Any]:
            if not self.user.take_back(to, id):
                raise StateError(f"{to} has begun with it, or it is gone: nothing was taken back")
            return self.agents()

        @router.post("/line")
        def line(line: str = Body(embed=True)) -> dict[str, Any]:
            sent = self.send(line)
            return {"sent": sent, "notice": sent and self.user.why_undelivered(sent["to"])}


def _queued(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that waits as pages get it: its words, or the call in one line."""
    name, args = message["action"]["name"], message["action"]["args"]
    words = args.get("content") if name == "say" else None
    text = words if isinstance(words, str) else f"{name} {json_text(args)}"
    return {"id": message.get("id"), "from": message["from"], "text": shorten(text, _QUEUED_CHARS)}

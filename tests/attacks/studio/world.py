"""A studio that has all that its routes can be asked for: agents, runs, towns, a server, cards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from attacks.studio.conftest import Asker, Port
from models.openai_server import HANG, Answer, OpenAIServer, Request, text
from moothall import ACCESS_PERMITTED, Agent, NativeSpace, Researcher, action
from moothall.actions.approval import ApprovalRequest, Question
from moothall.journal import RunShares
from moothall.research.findings import ResearchTask
from moothall.research.writing.review import ProposedPlan
from moothall.serving import MCPAgent
from moothall.studio.cards.plan import PlanDesk
from moothall.studio.doors import DoorsTab
from moothall.studio.orders.order import ActOrder, ResearchOrder
from moothall.studio.orders.simulate import SimulateOrder
from moothall.studio.page import Tab
from moothall.studio.towns.tab import SecondRun
from research.small_web import tools
from serving.mcp_servers.conftest import command
from studio.told import Told

WAITS = "Wait for ever"
CARDS = ("approval", "question", "decision", "plan")
EXPERIMENT = """\
name: small
question: Who is at home?
society: {citizens: 10, step: 12h}
metrics: [home]
workflow: [step: 2]
"""
_PERMITTED = ApprovalRequest("Clerk", "delete", {"path": "notes"}, "User", {})

Given = Mapping[str, Any]


class Clerk(Agent):
    """Keeps what it is told."""

    @action
    async def say(self, content: str, thread: str | None = None) -> str:
        """Say something to the clerk."""
        return content


class Slow(Agent):
    """Never ends what it began first."""

    @action
    async def say(self, content: str) -> None:
        """Say something to it."""
        await asyncio.Event().wait()


class World:
    """What good requests name, each by a parameter's name."""

    def __init__(self, port: Port, asker: Asker, folder: Path, model: str) -> None:
        self.port, self.asker, self.folder, self.model = port, asker, folder, model
        self.told = Told(port.studio)
        self._open: dict[str, int] = {}
        jobs, towns = port.studio.jobs, port.studio.society
        self.waiting = jobs.start(self.order(WAITS))
        self.done = jobs.start(self.order("Do it"))
        self.told.until("job", run=self.done, state="ended")
        self.research = jobs.start(ResearchOrder(["Which port does alpha use?"], str(folder)))
        self.told.until("job", run=self.research, state="ended")
        self.towns = ["first", "second", "third"]
        for run in self.towns:
            towns.set_up(SimulateOrder(10, 30, 1, "6h"), run)
            self.told.until("step", step=1, state="paused")
        towns.put_beside(SecondRun(run=self.towns[0]))
        file = folder / "small.yaml"
        file.write_text(EXPERIMENT)
        towns.experiments.start(str(file), 1, None, "")
        self.told.until("experiment", state="ended")

    def order(self, task: str) -> ActOrder:
        """Work of the model on the folder."""
        return ActOrder(task, str(self.folder), self.model)

    def good(self) -> dict[str, list[Given]]:
        """Return by path the parameters of good requests, where a name is not enough."""
        towns = self.port.studio.society
        assert towns.town is not None
        return {
            "/studio/act/{command}": [
                {"command": "steer", "run": self.waiting},
                {"command": "pause", "run": self.waiting},
                {"command": "unpause", "run": self.waiting},
                {"command": "resume", "run": self.done, "more": {"max_tokens": 9}},
            ],
            "/studio/doors/accept": [{"id": "sums"}],
            "/studio/space/take-back": [{"to": "Slow", "id": self._queued}],
            "/studio/runs/withdraw": [{"number": self._link}],
            "/studio/static/tabs/{name}.js": [{"name": "runs"}],
            "/studio/cards/{number}": [self._card(kind) for kind in CARDS],
            "/studio/society/control": [{"do": "step"}, {"do": "pause"}],
            "/studio/society/citizen": [{"id": "3"}],
            "/studio/society/map": [{"second": "0"}, {"second": "1"}],
            "/studio/society/put_beside": [{"run": self.towns[0]}],
            "/studio/society/survey": [
                {"kind": "yes_no"},
                {"kind": "choice", "by": "opinion art", "choices": ["a", "b"]},
            ],
            "/studio/society/intervene": [
                {"news": ["x"]},
                {"close": [towns.town.map_data()["places"][0][0]]},
                {"facts": {"x": 1}},
                {"pay": [["government", "everyone", 1]]},
            ],
        }

    def named(self, path: str, name: str) -> Any:
        """Return a good value of a parameter by its name: one that is new needs one here."""
        run = self.research if path.startswith("/studio/research/") else self.done
        values = {
            "run": run,
            "other": self.research,
            "id": "Clerk",
            "line": "/Clerk.help",
            "ending": "md",
            "scheme": "dark",
            "texts": ["x"],
            "runs": [self.done],
            "number": 1,
            "sequence": 1,
            "upto": 2,
            "after": 0,
            "before": 9,
            "most": 9,
            "town": 0,
            "second": False,
            "layer": "money",
            "speed": 4,
            "do": "pause",
            "citizen": "3",
            "name": "",
            "question": "Which port does alpha use?",
            "model": "",
            "path": "",
            "text": "x",
            "filter": "from:Clerk",
            "thread": "trip",
            "rest": "x",
            "news": ["x"],
            "close": [],
            "open": [],
            "close_roads": [],
            "open_roads": [],
            "hours": 0,
            "facts": {},
            "pay": [],
            "by": "need hunger",
            "citizens": 5,
            "choices": [],
            "more": {},
            "shown_hash": self._shown_hash,
            "days": 7,
            "decisions": {},
        }
        return values[name]

    def _queued(self) -> str:
        """Return the id of a message that waits behind another."""
        line = {"line": '/Slow.say content:"x"'}
        self.port.post("/studio/space/line", line)
        return str(json.loads(self.port.post("/studio/space/line", line).text)["sent"]["id"])

    def _link(self) -> int:
        """Return the number of a new link to a run."""
        shares = RunShares(self.port.studio.journal)
        shares.add(self.done, 7)
        return shares.open_ones(self.done)[-1].number

    def _shown_hash(self) -> str:
        """Return the definitions of the server's tools, as the page has them."""
        tab = next(each for each in self.port.studio.tabs if isinstance(each, DoorsTab))
        return next(str(each["shown_hash"]) for each in tab.state()["connected"])

    def form(self, tab: Tab, name: str) -> Given:
        """Return what fills in a form so that it begins something small."""
        of: dict[str, dict[str, Any]] = {
            "act": {"task": "Do it", "root": str(self.folder), "model": self.model, "review": ""},
            "research": {"objectives": "Which port does alpha use?", "folder": str(self.folder)},
            "society": {"citizens": 10, "days": 30, "step": "1h", "run_id": self.towns[0]},
        }
        small = {"file": str(self.folder / "small.yaml"), "out": str(self.folder / "out")}
        return small if name == "experiment" else of[tab.name]

    def _card(self, kind: str) -> Given:
        """Return a good answer to a card, which is put up when it is asked for."""
        said: dict[str, dict[str, Any]] = {
            "approval": {"permit": True, "fingerprint": _PERMITTED.fingerprint, "choice": ""},
            "question": {"text": "three"},
            "decision": {"choice": "continue", "instruction": "Look.", "reasoning": "so"},
            "plan": {"choice": "begin", "tasks": [], "outline": [{"heading": "A", "about": "b"}]},
        }
        task = {"tool": "search", "args": {"query": "x"}, "reasoning": "so"}
        said["plan"]["tasks"] = [task]
        return {"number": lambda: self._asked(kind), "answer": said[kind]}

    def _asked(self, kind: str) -> int:
        """Return the number of an open card of a kind; put one up if there is none."""
        cards = self.port.studio.cards
        number = self._open.get(kind, 0)
        if number in {each["number"] for each in cards.to_json()}:
            return number
        if kind == "decision":  # of a run, which waits in its journal
            self.port.studio.jobs.start(replace(self.order("Do it"), review="me"))
            self._open[kind] = self.told.until("card", kind=kind)["number"]
            return self._open[kind]
        desk = PlanDesk(cards, self.done)
        desk.tools = Researcher("r", None, ["x"], tools()).tools
        plan = ProposedPlan(["x"], [ResearchTask("search", {"query": "x"}, "so")])
        asks: dict[str, Callable[[], Any]] = {
            "approval": lambda: cards.approve(_PERMITTED),
            "question": lambda: cards.answer(Question("Clerk", "How many?")),
            "plan": lambda: desk.review(plan),
        }
        self._open[kind], _ = self.asker.put_up(asks[kind](), kind)
        return self._open[kind]


@contextmanager
def living(port: Port, folder: Path) -> Iterator[World]:
    """A world that lives in a studio."""
    (folder / "alpha.md").write_text("# Alpha\n\nThe alpha protocol uses port 4711.\n")
    with ExitStack() as stack:
        server = stack.enter_context(OpenAIServer(_answer))
        space = stack.enter_context(NativeSpace())
        asker = Asker(port)
        stack.callback(asker.close)
        lock = folder / "lock.json"
        sums = MCPAgent("sums", command(), lock=lock, access=ACCESS_PERMITTED)
        for each in (Clerk("Clerk"), Slow("Slow"), sums, port.studio.user):
            space.add(each)
        yield World(port, asker, folder, f"{server.url}#m")


def _answer(request: Request) -> Answer:
    return HANG if WAITS in json.dumps(request.body) else text("Done.")

"""The studio with something in each tab: agents that talk, a run, research and a small town.

    python examples/studio.py [PORT]

No key and no network: the model in the box answers, research quotes without a model, and the
citizens live by rules. Open the address that is printed; Ctrl-C ends it.
"""

import logging
import sys
import tempfile
from pathlib import Path

from moothall import Agent, ChattyAI, Host, NativeSpace, action
from moothall.studio import demo, gradio_user
from moothall.studio.orders.order import ActOrder, ResearchOrder
from moothall.studio.orders.simulate import SimulateOrder

logging.getLogger("moothall").setLevel(logging.CRITICAL)  # what fails is told on the page

NOTES = {
    "harbour.md": "# The harbour\n\nThe harbour opens at six. Ferries leave every twenty minutes, "
    "and the last one leaves at eleven in the evening. A ticket costs three euros.\n",
    "museum.md": "# The museum\n\nThe museum is closed on Mondays. On the first Sunday of a month "
    "entry is free. It has shown the history of the ferries since 1987.\n",
    "market.md": "# The market\n\nThe market is held on Wednesdays and Saturdays, from seven until "
    "noon. Fish is sold at the harbour's end of the market.\n",
}


class Calculator(Agent):
    """Adds and multiplies."""

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action
    async def multiply(self, a: int, b: int) -> int:
        """Multiply two integers."""
        return a * b


class Visitor(Agent):
    """Asks the others a few things when it comes, and no more."""

    async def after_add(self) -> None:
        """Ask."""
        say = {"name": "say", "args": {"content": "Hello, what is a harbour?"}}
        self.send({"to": "Chatty", "action": say})
        times = {"name": "multiply", "args": {"a": 6, "b": 7}}
        self.send({"id": "times", "to": "Calculator", "action": times})

    @action
    async def say(self, content: str) -> None:
        """Say something to the visitor."""


def main(*more: Agent) -> None:
    """Serve it until Ctrl-C, with more agents in its space."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    with tempfile.TemporaryDirectory() as folder, NativeSpace() as space, demo:
        for name, text in NOTES.items():
            Path(folder, name).write_text(text)
        space.add(ChattyAI("Chatty"))
        space.add(Host("Host", folder))
        space.add(Calculator("Calculator"))
        space.add(gradio_user)
        for each in more:
            space.add(each)
        demo.launch(port, prevent_thread_lock=True)
        space.add(Visitor("Visitor", receive_own_broadcasts=False))
        search = 'Search for "ticket" in harbour.md'
        demo.jobs.start(ActOrder(search, folder, "local", max_iterations=1, review="me"))
        questions = ["When does the last ferry leave?", "When is the museum closed?"]
        demo.jobs.start(ResearchOrder(questions, folder=folder))
        demo.society.set_up(SimulateOrder(citizens=300, days=7.0, seed=7, step="15min"))
        demo.wait()


if __name__ == "__main__":
    main()

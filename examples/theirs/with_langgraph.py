"""A graph of LangGraph asks a person in the middle; what it did before is not done again.

    pip install 'moothall[langgraph]'; python with_langgraph.py

`as_steps` is all that the graph needs: its model and its tool are steps of the run then. The model
is scripted: replace it by a real one, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from moothall import Journal, LangGraphAgent
from moothall.serving.theirs.langgraph import as_steps


@tool
def book(hotel: str) -> str:
    """Book a room, until it is confirmed."""
    print("booking", hotel)
    return f"room 7 of {hotel}"


model = as_steps(GenericFakeChatModel(messages=iter(["Hotel Adler"])))
booking = as_steps(book)


async def stay(state: MessagesState) -> Any:
    """Choose a hotel, book it, and ask."""
    hotel = (await model.ainvoke(state["messages"])).text
    room = await booking.ainvoke({"hotel": hotel})
    answer = interrupt(f"Keep {room}?")
    return {"messages": [AIMessage(f"{room}: {answer}")]}


graph = StateGraph(MessagesState)
graph.add_node("stay", stay)
graph.add_edge(START, "stay")


async def main() -> None:
    """Begin the run, answer its question, and go on as another process would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        clerk = LangGraphAgent("clerk", graph.compile(), journal=path)
        reply = await clerk.reply("A room in Berne.", run_id="trip")
        print(reply.stop_reason)
        with Journal(path) as journal:
            (wait,) = journal.waiting()
            print(wait.text)
            journal.answer("trip", wait.key, "yes, keep it")
        clerk = LangGraphAgent("clerk", graph.compile(), journal=path)
        print((await clerk.reply("A room in Berne.", run_id="trip")).text)


if __name__ == "__main__":
    asyncio.run(main())

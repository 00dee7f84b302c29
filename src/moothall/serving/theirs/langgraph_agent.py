"""Graphs of LangGraph as agents of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moothall import ConfigError
from moothall.build import TheirAgent

if TYPE_CHECKING:
    from moothall.build import TheirRun


class LangGraphAgent(TheirAgent):
    """A compiled graph of LangGraph, as an agent of ours: `LangGraphAgent("clerk", graph)`.

    Build the graph with `as_steps(model)` and `as_steps(tools)`, of
    `moothall.serving.theirs.langgraph`. Its state has `messages`: those of our thread, then what is
    asked; the last one is the answer. `deps=` of a reply is its `context`. A node that calls
    `interrupt(question)` waits in the journal for an answer; what it does before is not done again
    if it is a step. Its own checkpointer is not used. Arguments and errors are those of
    `TheirAgent`; `schema=` reads the answer's text.

    Raises:
        ConfigError: a model or a tool of the graph is not `as_steps`
    """

    run_kind = "LangGraphAgent"
    framework = "langgraph"
    extra = ("langgraph", "langgraph")
    their_class = "langgraph.pregel:Pregel"

    def __init__(self, id: str | int, theirs: Any, **options: Any) -> None:
        super().__init__(id, theirs, **options)
        from moothall.serving.theirs.langgraph import part_without_steps

        if name := part_without_steps(theirs):
            raise ConfigError(
                f"agent {id!r}: the graph's {name} must be as_steps: build the graph with "
                "as_steps(model) and as_steps(tools)"
            )

    async def run_theirs(self, run: TheirRun) -> Any:
        """Run the program to its end."""
        from langchain_core.messages import convert_to_messages
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.types import Command

        from moothall.serving.theirs.langgraph import ours_of

        graph = self.theirs.copy(update={"checkpointer": InMemorySaver()})
        question = {"role": "user", "content": run.content}
        graph_input: Any = {"messages": convert_to_messages([*run.history, question])}
        config: Any = {"configurable": {"thread_id": run.request.run_id}}
        options: dict[str, Any] = {"durability": "exit"}  # an interrupt alone needs its state
        if self.theirs.context_schema is not None:
            options["context"] = run.deps
        result = await graph.ainvoke(graph_input, config, **options)
        while interrupts := result.get("__interrupt__"):
            answers = {}
            for each in interrupts:
                count = run.cache["interrupts"] = run.cache.get("interrupts", 0) + 1
                answers[each.id] = await run.wait(f"interrupt-{count}", each.value)
            run.begin_again()  # the nodes that asked
            result = await graph.ainvoke(Command(resume=answers), config, **options)
        if not run.has_steps:
            raise ConfigError(
                f"agent {self.id!r}: its graph asked no model and called no tool by a step: build "
                "it with as_steps(model) and as_steps(tools)"
            )
        return ours_of(result["messages"][-1])["content"]

    def write_value(self, value: Any) -> Any:
        """Return what a tool returned as JSON data."""
        from moothall.serving.theirs.langgraph import write_value

        return write_value(value)

    def read_value(self, data: Any) -> Any:
        """Return what the program gets of such data."""
        from moothall.serving.theirs.langgraph import read_value

        return read_value(data)

"""Programs of Pydantic AI: a bank's support, a weather service, a flight booking, a database."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    RunUsage,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from moothall import PydanticAIAgent
from serving.theirs.programs.program import Program


def scripted(*answers: Any) -> FunctionModel:
    """Return a model that gives these answers: a text, or the calls of tools."""

    def model(messages: Any, info: Any) -> ModelResponse:
        place = sum(isinstance(each, ModelResponse) for each in messages)
        answer = answers[place]
        if isinstance(answer, str):
            return ModelResponse(parts=[TextPart(answer)])
        return ModelResponse(
            parts=[
                ToolCallPart(name, args, f"c{place}.{n}") for n, (name, args) in enumerate(answer)
            ]
        )

    return FunctionModel(model)


# -- a bank's support ------------------------------------------------------------------------------


class Support(BaseModel):
    advice: str = Field(description="what the customer is told")
    block_card: bool
    risk: int = Field(ge=0, le=10)


@dataclass
class Customer:
    id: int
    accounts: dict[int, tuple[str, float]]
    effects: list[str]


def bank_support() -> Program:
    effects: list[str] = []
    model = scripted(
        [("balance", {"include_pending": True})],
        [("block_card", {"reason": "lost"})],
        [("final_result", {"advice": "Your card is blocked.", "block_card": True, "risk": 8})],
    )
    agent = Agent(model, deps_type=Customer, output_type=Support, instructions="You help.")

    @agent.instructions
    def who(ctx: RunContext[Customer]) -> str:
        return f"The customer is {ctx.deps.accounts[ctx.deps.id][0]}."

    @agent.tool
    async def balance(ctx: RunContext[Customer], include_pending: bool) -> str:
        """Return the balance of the account."""
        return f"${ctx.deps.accounts[ctx.deps.id][1] - include_pending:.2f}"

    @agent.tool
    async def block_card(ctx: RunContext[Customer], reason: str) -> str:
        """Block the customer's card."""
        ctx.deps.effects.append(f"blocked {ctx.deps.id}: {reason}")
        return "blocked"

    async def bare() -> Any:
        return (await agent.run("I lost my card", deps=customer)).output

    customer = Customer(7, {7: ("Anna", 120.0)}, effects)
    wrap = partial(PydanticAIAgent, "support", agent, deps=customer)
    return Program(wrap, bare, "I lost my card", "block_card", effects)


# -- a weather service -----------------------------------------------------------------------------


def weather() -> Program:
    effects: list[str] = []
    model = scripted(
        [("place_of", {"town": "London"}), ("place_of", {"town": "Oslo"})],
        [
            ("forecast", {"latitude": 51.5, "longitude": -0.1}),
            ("forecast", {"latitude": 59.9, "longitude": 10.7}),
        ],
        [("subscribe", {"town": "Oslo", "email": "anna@example.org"})],
        "London: 12 C, Oslo: 3 C. You are told of Oslo each morning.",
    )
    agent = Agent(model, instructions="Be concise, reply with one sentence.", retries=2)

    @agent.tool_plain
    async def place_of(town: str) -> dict[str, float]:
        """Return where a town is."""
        places = {"London": (51.5, -0.1), "Oslo": (59.9, 10.7)}
        return dict(zip(("latitude", "longitude"), places[town], strict=True))

    @agent.tool_plain
    def forecast(latitude: float, longitude: float) -> dict[str, Any]:
        """Return the weather at a place."""
        return {"temperature": f"{round(12 - (latitude - 51.5))} C", "longitude": longitude}

    @agent.tool_plain
    def subscribe(town: str, email: str) -> str:
        """Send the weather of a town each morning."""
        effects.append(f"{email}: {town}")
        return "subscribed"

    async def bare() -> Any:
        return (await agent.run("Weather in London and Oslo?")).output

    wrap = partial(PydanticAIAgent, "weather", agent)
    return Program(wrap, bare, "Weather in London and Oslo?", "subscribe", effects)


# -- a flight booking, by two agents ---------------------------------------------------------------


class Flight(BaseModel):
    number: str
    price: int
    origin: str
    destination: str


class NoFlight(BaseModel):
    """No flight fits."""


@dataclass
class Trip:
    page: str
    origin: str
    destination: str


def flight_booking() -> Program:
    effects: list[str] = []
    flights = [Flight(number="BA1", price=200, origin="SFO", destination="ANC")]
    extraction = Agent(
        scripted([("final_result", {"response": [each.model_dump() for each in flights]})]),
        output_type=list[Flight],
        instructions="Extract the flights of the page.",
    )
    wrong = {**flights[0].model_dump(), "destination": "JFK"}
    search = Agent[Trip, Flight | NoFlight](
        scripted(
            [("extract_flights", {})],
            [("final_result_Flight", wrong)],  # the validator has it asked again
            [("reserve", {"number": "BA1"})],
            [("final_result_Flight", flights[0].model_dump())],
        ),
        deps_type=Trip,
        output_type=Flight | NoFlight,  # type: ignore[arg-type]
        retries=4,
        instructions="Find the cheapest flight.",
    )

    @search.tool
    async def extract_flights(ctx: RunContext[Trip]) -> list[Flight]:
        """Return the flights of the page."""
        return (await extraction.run(ctx.deps.page, usage=ctx.usage)).output

    @search.tool_plain
    def reserve(number: str) -> str:
        """Reserve a seat."""
        effects.append(number)
        return "reserved"

    @search.output_validator
    async def fits(ctx: RunContext[Trip], output: Flight | NoFlight) -> Flight | NoFlight:
        if isinstance(output, Flight) and output.destination != ctx.deps.destination:
            raise ModelRetry(f"Its destination must be {ctx.deps.destination}")
        return output

    trip = Trip("1. BA1 $200 SFO-ANC", "SFO", "ANC")

    async def bare() -> Any:
        return (await search.run("Find me a flight", deps=trip, usage=RunUsage())).output

    wrap = partial(PydanticAIAgent, "flights", search, deps=trip)
    return Program(wrap, bare, "Find me a flight", "reserve", effects)


# -- a question to a database ----------------------------------------------------------------------


class Query(BaseModel):
    sql: str
    explanation: str = ""


def database() -> Program:
    effects: list[str] = []
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.execute("create table logs (level text, message text)")
    db.execute("insert into logs values ('error', 'disk full')")
    model = scripted(
        [("count", {"table": "logs"})],
        [("delete_before", {"day": "2026-01-01"})],
        [("final_result", {"sql": "select nothing"})],  # is refused by the validator
        [("final_result", {"sql": "select * from logs where level = 'error'"})],
    )
    agent = Agent(
        model,
        output_type=[Query, DeferredToolRequests],
        retries=3,
        system_prompt="You write SQL.",
    )

    @agent.system_prompt
    async def schema() -> str:
        return str(db.execute("select sql from sqlite_master").fetchall())

    @agent.tool_plain
    def count(table: str) -> int:
        """Count the rows of a table."""
        return int(db.execute(f"select count(*) from {table}").fetchone()[0])

    @agent.tool_plain(requires_approval=True)
    def delete_before(day: str) -> str:
        """Delete old rows."""
        effects.append(day)
        return "deleted"

    @agent.output_validator
    async def explains(output: Query | DeferredToolRequests) -> Query | DeferredToolRequests:
        if isinstance(output, DeferredToolRequests):
            return output
        try:
            db.execute(f"explain {output.sql}")
        except sqlite3.Error as error:
            raise ModelRetry(f"Invalid query: {error}") from error
        return output

    async def bare() -> Any:
        asked = await agent.run("Show me the errors")
        assert isinstance(asked.output, DeferredToolRequests)
        approvals: Any = {each.tool_call_id: True for each in asked.output.approvals}
        results = DeferredToolResults(approvals=approvals)
        history = asked.all_messages()
        return (await agent.run(message_history=history, deferred_tool_results=results)).output

    wrap = partial(PydanticAIAgent, "database", agent)
    return Program(wrap, bare, "Show me the errors", "delete_before", effects)


PROGRAMS = (bank_support, weather, flight_booking, database)

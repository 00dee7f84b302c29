"""Programs of the OpenAI Agents SDK: an airline, translators, a guarded tutor, an assistant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import agents
from agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    ItemHelpers,
    RunContextWrapper,
    Runner,
    function_tool,
    handoff,
    input_guardrail,
    set_tracing_disabled,
)
from agents.items import ModelResponse
from agents.testing import assistant_message, function_call
from pydantic import BaseModel

from moothall import AgentsSDKAgent
from serving.theirs.programs.program import Program

set_tracing_disabled(True)


class Scripted(agents.Model):
    """A model that gives these answers, by how many of its calls its prompt has the results of."""

    def __init__(self, *answers: str | Sequence[tuple[str, dict[str, Any]]], id: str = "r") -> None:
        self.answers = answers
        self.id = id

    async def get_response(self, *parts: Any, **named: Any) -> Any:
        prompt = named["input"] if "input" in named else parts[1]
        items = () if isinstance(prompt, str) else prompt
        ids = {str(each.get("call_id", "")).partition("-")[0] for each in items}
        place = sum(each.startswith(self.id) for each in ids)
        answer = self.answers[place]
        output = (
            [assistant_message(answer)]
            if isinstance(answer, str)
            else [
                function_call(name, args, call_id=f"{self.id}{place}-{n}")
                for n, (name, args) in enumerate(answer)
            ]
        )
        return ModelResponse(output, agents.Usage(requests=1, total_tokens=15), None)

    def stream_response(self, *parts: Any, **named: Any) -> Any:
        raise NotImplementedError


def program(agent: Any, task: str, tool: str, effects: list[str], context: Any = None) -> Program:
    async def bare() -> Any:
        result = await Runner.run(agent, task, context=context)
        while result.interruptions:
            state = result.to_state()
            for each in result.interruptions:
                state.approve(each)
            result = await Runner.run(agent, state)
        return result.final_output

    wrap = partial(AgentsSDKAgent, "clerk", agent, deps=context)
    return Program(wrap, bare, task, tool, effects)


# -- an airline's service, of three agents that hand over ------------------------------------------


class Booking(BaseModel):
    confirmation: str | None = None
    seat: str | None = None
    flight: str | None = None


def airline() -> Program:
    effects: list[str] = []

    @function_tool(name_override="faq_lookup", description_override="Look up a question.")
    async def look_up(question: str) -> str:
        return "One bag of 23 kg." if "bag" in question.lower() else "I do not know."

    @function_tool
    async def update_seat(
        context: RunContextWrapper[Booking], confirmation: str, new_seat: str
    ) -> str:
        """Update the seat.

        Args:
            confirmation: the number of the booking
            new_seat: the seat
        """
        context.context.confirmation, context.context.seat = confirmation, new_seat
        assert context.context.flight is not None
        effects.append(f"{confirmation}: {new_seat}")
        return f"Updated the seat to {new_seat}"

    async def on_seat(context: RunContextWrapper[Booking]) -> None:
        context.context.flight = "FLT-123"

    faq = Agent[Booking](
        "FAQ", handoff_description="answers", tools=[look_up], model=Scripted("No.")
    )
    seats = Agent[Booking](
        "Seats",
        handoff_description="updates a seat",
        instructions=lambda context, agent: f"You are {agent.name}; {context.context.flight}.",
        tools=[update_seat],
        model=Scripted(
            [("update_seat", {"confirmation": "K7", "new_seat": "12A"})], "You have 12A.", id="s"
        ),
    )
    triage = Agent[Booking](
        "Triage",
        instructions="Hand over.",
        handoffs=[faq, handoff(agent=seats, on_handoff=on_seat)],
        model=Scripted([("transfer_to_seats", {})]),
    )
    faq.handoffs.append(triage)
    seats.handoffs.append(triage)
    return program(triage, "I want seat 12A", "update_seat", effects, Booking())


# -- agents as tools -------------------------------------------------------------------------------


def translators() -> Program:
    effects: list[str] = []

    @function_tool
    def publish(text: str) -> str:
        """Publish a text."""
        effects.append(text)
        return "published"

    def translator(language: str, answer: str) -> Any:
        agent = Agent(f"{language} agent", instructions=language, model=Scripted(answer))
        return agent.as_tool(f"to_{language}", f"Translate to {language}.")

    async def last_text(result: Any) -> str:
        return ItemHelpers.text_message_outputs(result.new_items).upper()

    french = Agent("french agent", model=Scripted("bonjour"))
    orchestrator = Agent(
        "orchestrator",
        instructions="Use your tools to translate.",
        tools=[
            translator("spanish", "hola"),
            french.as_tool("to_french", "Translate.", custom_output_extractor=last_text),
            publish,
        ],
        model=Scripted(
            [("to_spanish", {"input": "hello"}), ("to_french", {"input": "hello"})],
            [("publish", {"text": "hola BONJOUR"})],
            "It is published.",
        ),
    )
    return program(orchestrator, "Say hello in two languages", "publish", effects)


# -- a guarded tutor -------------------------------------------------------------------------------


class Homework(BaseModel):
    reasoning: str
    is_homework: bool


class Answer(BaseModel):
    text: str
    sent: bool


def tutor() -> Program:
    effects: list[str] = []
    checker = Agent(
        "Guardrail",
        instructions="Is it homework?",
        output_type=Homework,
        model=Scripted('{"reasoning": "a question", "is_homework": false}'),
    )

    @input_guardrail
    async def no_homework(
        context: RunContextWrapper[None], agent: Agent[Any], text: Any
    ) -> GuardrailFunctionOutput:
        result = await Runner.run(checker, text, context=context.context)
        output = result.final_output_as(Homework)
        return GuardrailFunctionOutput(output_info=output, tripwire_triggered=output.is_homework)

    @function_tool
    def send(to: str, text: str) -> str:
        """Send an answer."""
        effects.append(f"{to}: {text}")
        return "sent"

    agent = Agent(
        "Tutor",
        instructions="You help.",
        tools=[send],
        input_guardrails=[no_homework],
        output_type=Answer,
        model=Scripted(
            [("send", {"to": "Anna", "text": "Sacramento"})], '{"text": "Sacramento", "sent": true}'
        ),
    )
    return program(agent, "Send Anna the capital of California", "send", effects)


# -- a person in the loop, and hooks ---------------------------------------------------------------


@dataclass
class Assistant:
    name: str
    notes: list[str] = field(default_factory=list)


def assistant() -> Program:
    effects: list[str] = []

    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            context.context.notes.append(f"{tool.name} gave {result}")

    @function_tool
    async def weather(city: str) -> str:
        """Return the weather."""
        return f"{city}: sunny"

    async def is_asked(context: Any, args: dict[str, Any], call_id: str) -> bool:
        return args["city"] == "Oakland"

    @function_tool(needs_approval=is_asked)
    async def book(city: str) -> str:
        """Book a room."""
        effects.append(city)
        return f"booked in {city}"

    def instructions(context: RunContextWrapper[Assistant], agent: Agent[Assistant]) -> str:
        return f"The user's name is {context.context.name}."

    agent = Agent[Assistant](
        "Assistant",
        instructions=instructions,
        tools=[weather, book],
        hooks=Hooks(),
        model=Scripted(
            [("weather", {"city": "Oakland"})],
            [("book", {"city": "Oakland"})],
            "Booked, and sunny.",
        ),
    )
    return program(agent, "Book a room in Oakland", "book", effects, Assistant("Anna"))


PROGRAMS = (airline, translators, tutor, assistant)

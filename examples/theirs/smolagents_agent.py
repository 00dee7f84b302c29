"""Agents of smolagents as agents of ours: how a fourth framework comes in, by `moothall.build`.

`SmolAgent` is the whole of it; `code_agent.py` beside it runs one. Each request to a model and each
call of a tool, also of one that a code agent's program calls, is a step of the run. smolagents runs
in a thread, so its steps come by `run.from_thread`, and its calls have no ids: a call is known by
its name and its arguments.
"""

from __future__ import annotations

import asyncio
from copy import copy
from functools import partial
from typing import Any

from smolagents import AgentMemory, ChatMessage, CodeAgent, TokenUsage
from smolagents.memory import ActionStep, TaskStep
from smolagents.models import get_dict_from_nested_dataclasses
from smolagents.monitoring import Timing

from moothall import Action, ModelReply
from moothall.build import TheirAgent, TheirRun, as_json
from moothall.models import Usage

ROLES = {"tool-call": "assistant", "tool-response": "user"}


class SmolAgent(TheirAgent):
    """An agent of smolagents, as an agent of ours: `SmolAgent("clerk", CodeAgent(…))`.

    The agents that it manages are within its run. Images and streams are not passed on.
    """

    framework = "smolagents"

    async def run_theirs(self, run: TheirRun) -> Any:
        """Run the program, with copies of its models and tools, in a thread."""
        agent = self._copied(run, self.theirs, None)
        for number, each in enumerate(run.history):
            text = str(each.get("content") or "")
            if each["role"] == "user":
                agent.memory.steps.append(TaskStep(text))
            elif each["role"] == "assistant" and text:
                agent.memory.steps.append(ActionStep(number, Timing(0.0), model_output=text))
        return await asyncio.to_thread(agent.run, str(run.content), reset=False)

    def _copied(self, run: TheirRun, agent: Any, part: str | None) -> Any:
        copied = copy(agent)
        copied.memory = AgentMemory(agent.system_prompt)
        copied.state, copied.stream_outputs = {**agent.state}, False
        copied.model = model_with_steps(run, agent.model, part)
        copied.tools = {
            name: each
            if name == "final_answer"
            else tool_with_steps(run, self.action_of(each), each)
            for name, each in agent.tools.items()
        }
        copied.managed_agents = {
            name: self._copied(run, each, name) for name, each in agent.managed_agents.items()
        }
        if isinstance(copied, CodeAgent):
            copied.python_executor = copied.create_python_executor()
        return copied

    def action_of(self, tool: Any) -> Action:
        """Return the action of a tool."""
        return self.tools.action(tool.name, tool.description, parameters_of(tool))

    def known_tools(self) -> list[Action]:
        """Return the tools of it and of the agents that it manages."""
        agents = [self.theirs]
        for agent in agents:
            agents += agent.managed_agents.values()
        tools = {name: each for agent in agents for name, each in agent.tools.items()}
        return [self.action_of(each) for name, each in tools.items() if name != "final_answer"]

    def tools_are_known(self) -> bool:
        """Return whether it has no other tools: an agent's are given when it is made."""
        return True

    def model_name(self) -> str:
        """Return the name of its model, as prices know it."""
        return name_of(self.theirs.model)


def name_of(model: Any) -> str:
    """Return the name of a model, as prices know it."""
    return str(getattr(model, "model_id", None) or type(model).__name__)


def parameters_of(tool: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments; a managed agent takes a task."""
    inputs = {
        k: {n: v for n, v in each.items() if n != "nullable"} for k, each in tool.inputs.items()
    }
    properties = {k: {} if e.get("type") == "any" else e for k, e in inputs.items()}
    return {"type": "object", "properties": properties}


def tool_with_steps(run: TheirRun, action: Action, tool: Any) -> Any:
    """Return a copy of a tool whose calls are steps of the run."""
    copied = copy(tool)

    def forward(*args: Any, **named: Any) -> Any:
        given = {**dict(zip(tool.inputs, args, strict=False)), **named}
        recorded = as_json(given)

        async def execute(new: dict[str, Any]) -> Any:  # a code agent's arguments may be objects
            return await asyncio.to_thread(partial(tool, **(given if new == recorded else new)))

        return run.from_thread(run.call(None, action, execute, recorded)).get()

    copied.forward = forward
    return copied


def model_with_steps(run: TheirRun, model: Any, part: str | None) -> Any:
    """Return a copy of a model whose requests are steps of the run, or of a part of it."""
    copied = copy(model)

    def generate(messages: Any, *args: Any, **options: Any) -> Any:
        request = SmolRequest(model, [*messages], args, options)
        if part is None:
            return run.from_thread(run.ask(request))
        with run.part(part):
            return run.from_thread(run.ask(request))

    copied.generate = generate
    return copied


class SmolRequest:
    """A request of such an agent to its model."""

    raw: ChatMessage

    def __init__(self, model: Any, messages: list[Any], args: Any, options: Any) -> None:
        self.name = name_of(model)
        self.max_tokens: int | None = {**getattr(model, "kwargs", {}), **options}.get("max_tokens")
        self._model, self._messages = model, messages
        self._args, self._options = args, options

    def messages(self) -> list[Any]:
        """Return its prompt."""
        return [
            {"role": ROLES.get(each.role.value, each.role.value), "content": text_of(each)}
            for each in self._messages
        ]

    def tools(self) -> list[Any]:
        """Return the tools that the model is shown."""
        tools = self._options.get("tools_to_call_from") or ()
        return [(each.name, each.description, parameters_of(each)) for each in tools]

    async def send(self, tell: Any) -> ModelReply:
        """Ask the model."""
        ask = partial(self._model.generate, self._messages, *self._args, **self._options)
        self.raw = await asyncio.to_thread(ask)
        used = self.raw.token_usage or TokenUsage(0, 0)
        return ModelReply(text_of(self.raw), usage=Usage(used.input_tokens, used.output_tokens))

    def dump(self) -> Any:
        """Return the answer as JSON data."""
        return as_json(get_dict_from_nested_dataclasses(self.raw, ignore_key="raw"))

    def load(self, data: Any) -> None:
        """Take the answer from its JSON data."""
        used = data.get("token_usage")
        usage = used and TokenUsage(used["input_tokens"], used["output_tokens"])
        self.raw = ChatMessage.from_dict({**data}, token_usage=usage)


def text_of(message: Any) -> str:
    """Return the text of a message."""
    content = message.content
    if isinstance(content, list):
        return "\n".join(str(each["text"]) for each in content if "text" in each)
    return content or ""

"""A framework of forty lines: a loop, a model of scripted answers, tools side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from moothall import Call, ModelReply, Usage
from moothall.build import TheirAgent, TheirRun


class Little:
    """An agent of the framework: `script(messages)` is its model, `tools` are functions."""

    def __init__(self, script: Callable[[list[Any]], Any], **tools: Callable[..., Any]) -> None:
        self.script = script
        self.tools = tools
        self.asked: list[int] = []  # how many messages each request to the model had

    async def complete(self, messages: list[dict[str, Any]]) -> Any:
        self.asked.append(len(messages))
        return self.script(messages)

    async def run(self, messages: list[dict[str, Any]], complete: Any, call: Any) -> str:
        while True:
            answer = await complete(messages)
            if isinstance(answer, str):
                return answer
            calls = [{"id": i, "name": name, "args": args} for i, name, args in answer]
            messages = [*messages, {"role": "assistant", "content": "", "tool_calls": calls}]
            results = await asyncio.gather(*(self._call(call, each) for each in calls))
            for each, result in zip(calls, results, strict=True):
                form = {"role": "tool", "tool_call_id": each["id"], "name": each["name"]}
                messages = [*messages, {**form, "content": result}]

    async def _call(self, call: Any, each: dict[str, Any]) -> str:
        try:
            return str(await call(each["id"], each["name"], each["args"]))
        except ValueError as error:
            return f"failed: {error}"


class LittleRequest:
    """A request of the framework's."""

    def __init__(self, agent: LittleAgent, messages: list[Any]) -> None:
        self.name, self.max_tokens, self.raw = "little", 50, None
        self._agent, self._messages = agent, messages

    def messages(self) -> list[Any]:
        return self._messages

    def tools(self) -> list[Any]:
        return [(name, name, {"type": "object"}) for name in self._agent.theirs.tools]

    async def send(self, tell: Any) -> ModelReply:
        self.raw = await self._agent.theirs.complete(self._messages)
        if isinstance(self.raw, str):
            return ModelReply(self.raw, usage=Usage(10, 5))
        calls = tuple(Call(*each) for each in self.raw)
        return ModelReply("", calls, usage=Usage(10, 5), finish_reason="calls")

    def dump(self) -> Any:
        return self.raw

    def load(self, data: Any) -> None:
        self.raw = data


class LittleAgent(TheirAgent):
    """Such an agent as one of ours."""

    framework = "little"

    def known_tools(self) -> list[Any]:
        return [self.tools.action(name, name, {"type": "object"}) for name in self.theirs.tools]

    def tools_are_known(self) -> bool:
        return True

    async def run_theirs(self, run: TheirRun) -> Any:
        async def complete(messages: list[Any]) -> Any:
            return await run.ask(LittleRequest(self, messages))

        async def call(id: str | None, name: str, args: dict[str, Any]) -> Any:
            async def execute(args: dict[str, Any]) -> Any:
                result = self.theirs.tools[name](**args)
                return await result if asyncio.iscoroutine(result) else result

            called = await run.call(id, self.tools.get_action(name), execute, args)
            if called.error is not None:
                raise called.error
            return called.refused or called.value

        messages = [*run.history, {"role": "user", "content": run.content}]
        return await self.theirs.run(messages, complete, call)


def as_json(messages: list[Any]) -> str:
    """Return messages as a text, to be looked for something in."""
    return json.dumps(messages)

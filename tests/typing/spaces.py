"""Agents in a space: docs/spaces.md, seed 004."""

from typing import Any, assert_type

from moothall import Agent, ChattyAI, Message, NativeSpace, User, action, format_slash, parse_slash


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    async def after_add(self) -> None:
        self.send({"to": "*", "action": {"name": "hello", "args": {}}})

    async def after_action(
        self, message: dict[str, Any], return_value: Any, error: BaseException | None
    ) -> None:
        print(message["action"]["name"], return_value, error)


class Quiet(Agent):
    def before_remove(self) -> None:
        print("leaving")

    def request_permission(self, proposed_message: dict[str, Any]) -> bool:
        return proposed_message["from"] in ("me", "you")

    @action
    def response(self, data: Any, original_message_id: str | None = None) -> None:
        print(data, original_message_id)

    @action
    def error(self, error: str) -> None:  # error
        print(error)


class Careful(Agent):
    async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
        permitted: bool = await super().request_permission(proposed_message)
        return permitted and proposed_message["from"] in ("me", "you")

    @action
    async def help(self, action_name: str | None = None) -> dict[str, Any]:
        described: dict[str, Any] = await super().help(action_name)
        return {"rules": "ask first", **described}


with NativeSpace() as space:
    calculator = space.add(Calculator("Calculator"))
    assert_type(calculator, Calculator)
    me = space.add(Agent("me"))
    message: Message = {
        "from": "me",
        "to": "Calculator",
        "action": {"name": "add", "args": {"a": 1, "b": 2}},
    }
    print(me.request(message).result(timeout=5))
    print(me.ask("Calculator", "add", a=1, b=2).result())
    typed = parse_slash("/Calculator.add a:1 b:2")
    if typed is not None:
        me.send(typed)
    print(format_slash(message))
    space.add(ChattyAI("chatty"))
    space.add(User())
    space.observe(lambda message: print(message["from"]))
    names: list[str] = space.ids()
    space.remove("chatty")
    space.add("chatty")  # error
    me.request("add")  # error


async def total(agent: Calculator) -> int:
    assert_type(await agent.add(1, 2), int)
    await agent.add("1", 2)  # error
    result: int = await agent.ask("Calculator", "add", a=1, b=2)
    return result


class Plain(Agent):
    @action
    def sort(self, names: list[str], reverse: bool = False) -> list[str]:
        return sorted(names, reverse=reverse)


async def typed_answers(agent: Agent) -> None:
    assert_type(await agent.ask("Calculator", Calculator.add, a=1, b=2), int)
    assert_type(await agent.ask("Calculator", Calculator.add, timeout=5, a=1, b=2), int)
    assert_type(agent.ask("plain", Plain.sort, names=["b"]).result(), list[str])
    assert_type(agent.ask("plain", Plain.sort, timeout=None, names=["b"]).result(5), list[str])
    await agent.ask("Calculator", Calculator.add, a="1", b=2)  # error
    await agent.ask("Calculator", Calculator.add, a=1)  # error
    await agent.ask("Calculator", "add", 1, 2)  # error

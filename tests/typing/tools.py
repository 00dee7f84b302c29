"""Tools, what they know of their call, and how agents are made: docs/agents.md."""

from dataclasses import dataclass

from moothall import (
    ACCESS_REQUESTED,
    Action,
    ActionRegistry,
    Agent,
    AskAgain,
    Budget,
    CallbackApprover,
    ChattyAI,
    Context,
    Conversation,
    DualActAgent,
    Goal,
    HandOver,
    MaxTurns,
    OpenAIFunctionAgent,
    Person,
    ReActAgent,
    RoundRobin,
    ScriptedModel,
    Skills,
    User,
    action,
    ask_person,
)

MODEL = ScriptedModel(["Hello."])


@dataclass
class Shop:
    orders: dict[str, str]


def my_order(number: str, context: Context[Shop]) -> str:
    """Tell the user what they have ordered."""
    if number not in context.deps.orders:
        raise AskAgain(f"there is no order {number!r}")
    print(context.deps.nosuch)  # error
    return context.deps.orders[number]


@action(access_policy=ACCESS_REQUESTED, timeout=5)
async def refund(order: str, context: Context) -> str:
    """Pay money back."""
    budget: Budget | None = context.budget
    agent: Agent = context.agent
    answer = await context.ask_person(f"Refund {order}, {agent.id}, {budget}?")
    print(answer.nosuch)  # error
    return f"{answer}: {context.thread}, {context.run_id}, {context.sender}"


@action(acess_policy=ACCESS_REQUESTED)  # error
def misspelt() -> None:
    """Do nothing."""


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    async def before_action(self, message: dict[str, object]) -> None:
        print(message["action"])


def colleagues(agent: Agent) -> list[str]:
    if agent.space is None:
        return []
    added = agent.space.add(Calculator("Another"))
    print(added.add, agent.llm and agent.llm.name)
    agent.space.nosuch()  # error
    return agent.space.ids()


registry = ActionRegistry()
registry.register(my_order)
registry.register(Action("refund", refund, "Pay back.", {"type": "object"}, terminal=True))
registry.register(Calculator("Calculator"))
registry.register(Skills("skills"))

desk = ReActAgent(
    "desk",
    MODEL,
    actions=[my_order, refund, ask_person, Calculator("Calculator"), Action("size", len)],
    goals=[Goal(1, "help", "Help the customer.")],
    system_prompt="You know the orders.",
    max_iterations=5,
    discover=["Calculator", 7],
    budget=Budget(tokens=100_000, seconds=60),
    journal="desk.db",
    shared=True,
    name="Desk",
    concurrency=4,
    approver=CallbackApprover(lambda request: request.args["order"] == "A1"),
    deps=Shop({}),
)
by_registry = ReActAgent("desk", "local", actions=registry)
skilled = ReActAgent("desk", MODEL, actions=[my_order, Skills("skills"), Calculator("Calculator")])
ReActAgent("desk", MODEL, actions=[Skills("skills")])
desk.system_prompt = "You know everything."
desk.goals.append(Goal(2, "be brief", "One sentence."))
print(desk.actions.get_actions()[0].name, desk.reply_sync("Hello", deps=Shop({})).text)

ReActAgent("desk", MODEL, tools=[my_order])  # error
ReActAgent("desk", MODEL, actions="nope")  # error
ReActAgent("desk", MODEL, actions=[3])  # error
ReActAgent("desk", 3)  # error
ReActAgent("desk", MODEL, goals=["help"])  # error
ReActAgent("desk", MODEL, approvr=None)  # error
ReActAgent("desk", MODEL, approver="me")  # error
ReActAgent("desk", MODEL, concurrency="4")  # error
ChattyAI("chatty", "local", system_prompt="Be brief.", deps=3, concurrency=2)
ChattyAI("chatty", sytem_prompt="Be brief.")  # error
OpenAIFunctionAgent("desk", MODEL, user_id="Ada", max_iterations=3, memory=None, deps=3)
OpenAIFunctionAgent("desk", MODEL, max_iteration=3)  # error
Person("Ada", shared=True, deps=3)
Person("Ada", sharde=True)  # error
User("Ada", receive_own_broadcasts=True)
User("Ada", receive_own_broadcast=True)  # error
Agent("Ada", deps=3, concurrency=3)
Agent("Ada", dep=3)  # error
DualActAgent(human=desk, reactive=[desk, by_registry], first="reactive", review="on_error", deps=3)
DualActAgent(human=desk, reactve=desk)  # error
DualActAgent(human=desk, reactive=desk, first="me")  # error
DualActAgent(human=desk, reactive=desk, review="sometimes")  # error
support = Conversation(
    [desk, by_registry],
    next=HandOver("desk", about={"bills": "pays money back"}),
    until=MaxTurns(4),
    approver=CallbackApprover(lambda request: True),
)
Conversation([desk], next=RoundRobin(), until=lambda state: len(state.transcript) > 3)
Conversation([desk], untill=MaxTurns(4))  # error
Conversation(["desk"])  # error

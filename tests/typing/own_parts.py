"""Models, memories, environments and other parts of one's own, with annotations."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from moothall import (
    Action,
    Agent,
    AgentParams,
    ApprovalRequest,
    Approver,
    Budget,
    BudgetedModel,
    CallbackApprover,
    Conversational,
    Embedder,
    Environment,
    Memory,
    Model,
    ModelReply,
    Question,
    ReActAgent,
    Refused,
    Reply,
    Rule,
    RuleApprover,
    StreamingModel,
    TerminalApprover,
    TextPiece,
    TokenBoundedMemory,
)


class Echo:
    name = "echo"
    context_tokens = None

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        return ModelReply(text=messages[-1]["content"])


@dataclass(frozen=True)
class Streams(Echo):
    name: str = "streams"

    async def stream(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> AsyncIterator[TextPiece | ModelReply]:
        yield TextPiece("Hello")
        yield ModelReply("Hello")


class ClerkParams(AgentParams):
    patience: int = 3


class Clerk(Agent):
    """An agent with parameters of its own."""

    ParamsType = ClerkParams
    params: ClerkParams

    async def forward(self) -> int:
        print(self.params.nosuch)  # error
        return self.params.patience


class NoModel:
    async def complete(self, messages: list[dict[str, Any]]) -> str:
        return "Hello"


model: Model = Echo()
streaming: StreamingModel = Streams()
not_a_model: Model = NoModel()  # error
ReActAgent("parrot", BudgetedModel(Echo(), Budget(tokens=100)))


class LastTen(Memory):
    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        return super().get_memories(10 if limit is None else limit)


class Notes:
    """A memory that inherits nothing."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []

    def add_memory(self, memory: dict[str, Any]) -> None:
        self.notes.append(memory)

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        return self.notes


def of_thread(thread: str | None) -> Memory:
    return TokenBoundedMemory(1000)


class DryRun(Environment):
    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        return self.format_result(f"would call {action.name} with {args}")


class Elsewhere:
    """An environment that inherits nothing."""

    async def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        return {"tool_executed": True, "result": action.execute(**args)}


for memory in (Memory(), LastTen(), Notes(), of_thread):
    ReActAgent("noted", Echo(), memory=memory)
for environment in (Environment(), DryRun(), Elsewhere()):
    ReActAgent("careful", Echo(), environment=environment)
ReActAgent("noted", Echo(), memory=[])  # error
ReActAgent("careful", Echo(), environment="here")  # error
first: str = ReActAgent("noted", Echo(), memory=LastTen()).memory.get_memories()[0]["content"]


class Lengths:
    name = "lengths"
    dimensions = 2

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]


embedder: Embedder = Lengths()


class AtMost:
    def approve(self, asked: ApprovalRequest) -> bool | Refused:
        return asked.args["amount"] <= 50 or Refused("at most 50 a day")


class OnThePage:
    async def approve(self, request: ApprovalRequest) -> bool:
        return str(request).startswith("/")

    async def answer(self, question: Question) -> str:
        return question.text


async def decide(request: ApprovalRequest) -> bool | Refused:
    return Refused("no such order") if request.thread is None else True


approvers: list[Approver] = [
    AtMost(),
    OnThePage(),
    TerminalApprover(),
    CallbackApprover(decide),
    CallbackApprover(lambda request: Refused("no")),
    RuleApprover([Rule(action="refund", permit=False)], otherwise=AtMost()),
]
wrong: Approver = Lengths()  # error


class WordCount:
    id = "count"

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        return Reply(f"{len(text)} words")

    async def observe(self, message: str | dict[str, Any], thread: str | int | None = None) -> None:
        print(message)


counts: Conversational = WordCount()

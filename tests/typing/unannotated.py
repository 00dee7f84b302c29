"""Parts of one's own as the docs write them, without annotations: models, memories, members."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs, allow-any-generics
# pyright: standard

from typing import Dict, List, Optional  # noqa: UP035 - as seed 003 writes them

from moothall import (
    Agent,
    ApprovalRequest,
    Approver,
    Conversation,
    DualActAgent,
    Embedder,
    Environment,
    Memory,
    Model,
    ModelReply,
    ReActAgent,
    Reply,
    ScriptedModel,
    SQLiteMemory,
    action,
)


class Echo:
    name = "echo"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply(text=messages[-1]["content"])


class Fixed:
    def __init__(self, name):
        self.name = name
        self.context_tokens = 4096
        self.max_tokens = 500

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply("Hello!")


models: list[Model] = [Echo(), Fixed("openai:gpt-4o")]
print(ReActAgent("parrot", Echo()).reply_sync("Good morning").text)


class Noted(Memory):
    """Shows a note before everything else."""

    def get_memories(self, limit=None):
        note = {"role": "system", "content": "Today is Monday."}
        return [note, *super().get_memories(limit)]


class Working(Memory):
    def __init__(self):
        self.items = []

    def add_memory(self, memory: dict):
        self.items.append(memory)

    def get_memories(self, limit: Optional[int] = None) -> List[Dict]:  # noqa: UP006, UP045
        return self.items[:limit]


class Kept:
    def __init__(self):
        self.items = []

    def add_memory(self, memory):
        self.items.append(memory)

    def get_memories(self, limit=None):
        return self.items[:limit]


class DryRun(Environment):
    def execute_action(self, action, args):
        return self.format_result(f"would call {action.name} with {args}")


ReActAgent("noted", Echo(), memory=Noted(), environment=DryRun())
ReActAgent("noted", Echo(), memory=Kept())
ReActAgent("noted", Echo(), memory=Working())
ReActAgent("noted", Echo(), memory=lambda thread: Memory())


class WordCount:
    id = "count"

    async def reply(self, text):
        return Reply(f"{len(text.split())} words")

    async def observe(self, message):
        pass


poet = ReActAgent("poet", ScriptedModel(["Roses are red."]))
print(Conversation([poet, WordCount()]).reply_sync("Go.").text)
DualActAgent(human=WordCount(), reactive=poet)


class Lengths:
    name = "lengths"
    dimensions = 2

    def embed(self, texts):
        return [[1.0, float(len(text))] for text in texts]


embedder: Embedder = Lengths()
SQLiteMemory("shop.db", embedder=Lengths())


class Desk:
    async def approve(self, request):
        return request.args["amount"] <= 50


approver: Approver = Desk()
asked = ApprovalRequest("desk", "refund", {"amount": 3}, "ada", {})


class Calculator(Agent):
    def __init__(self, id, **options):
        super().__init__(id, **options)
        self.total = 0

    @action
    def add(self, a, b):
        """Add two integers."""
        self.total += 1
        return a + b


calculator = Calculator("Calculator", approver=Desk())
ReActAgent("adder", ScriptedModel([{"name": "add"}, "3"]), actions=[calculator, calculator.add])

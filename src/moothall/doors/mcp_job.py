"""A call of a client of MCP under way, and its questions to the client's person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.approval import ApprovalRequest, Question, Refused
from moothall.approval.approval import Decision
from moothall.doors.served import in_lines
from moothall.errors import NobodyToAsk

_PERMIT: Final = {
    "type": "object",
    "properties": {"permit": {"type": "boolean", "title": "Permit this call?"}},
    "required": ["permit"],
}
_ANSWER: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Answer"}},
    "required": ["answer"],
}


@dataclass(eq=False)
class Job:
    """A running call, which may take several requests, one for each answer."""

    sender: str
    caller: str
    tool: str
    args: dict[str, Any]
    can_ask: bool  # whether the client can ask its person
    # What happens: an event of a reply, a question, or that it has ended, which is None.
    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[Any] | None = None
    asked: Asked | None = None  # the question that the client was given
    told: int = 0

    async def ask(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Ask the client's person; return the form that it accepted, or None."""
        asked = Asked(message, schema, asyncio.get_running_loop().create_future())
        self.news.put_nowait(asked)
        return await asked.answer

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask whether a call is permitted."""
        if not self.can_ask:
            return Refused("it asks for approval, and your client cannot ask (no elicitation)")
        form = await self.ask(f"Permit {request}", _PERMIT)
        if form is None or form.get("permit") is not True:
            return Refused("the person at your client has not permitted it")
        return True

    async def answer(self, question: Question) -> str:
        """Ask a question."""
        form = await self.ask(in_lines(question), _ANSWER) if self.can_ask else None
        if form is None or not isinstance(form.get("answer"), str):
            raise NobodyToAsk(f"agent {question.agent!r} has a question that nobody answers")
        said: str = form["answer"]
        return said


@dataclass(eq=False)
class Asked:
    """A question to the client's person, which waits for the answer."""

    message: str
    schema: dict[str, Any]
    answer: asyncio.Future[dict[str, Any] | None]

    def settle(self, result: Any) -> None:
        """Take the client's answer."""
        if not self.answer.done():
            accepted = getattr(result, "action", None) == "accept"
            content = getattr(result, "content", None)
            self.answer.set_result(dict(content or {}) if accepted else None)

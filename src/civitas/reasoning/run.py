"""One run of the loop, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

from civitas.action import Action
from civitas.memory.memory import Memory
from civitas.models.protocol import Usage
from civitas.reasoning.parsing import Answer, Wanted, read_answer
from civitas.reasoning.prompts import (
    MAX_RESULT_CHARS,
    NOT_RUN,
    json_text,
    readable,
    result_content,
    system_text,
)
from civitas.reasoning.reply import Reply, Step, StopReason

if TYPE_CHECKING:
    from civitas.models.protocol import Model
    from civitas.reasoning.names import Shown
    from civitas.reasoning.react import ReActAgent

__all__ = ["SAME_CALLS", "Run"]

logger = logging.getLogger("civitas.reasoning")

SAME_CALLS = 3
"""So many answers in a row with the same calls and the same results are no progress."""
_LEAST_CHARS = 200
"""How much of each result is shown in however small a context."""


class Run:
    """One run of the loop: what it added, did and used so far."""

    __slots__ = (
        "agent",
        "iteration",
        "memory",
        "messages",
        "model",
        "shown",
        "steps",
        "terminal",
        "text",
        "usage",
    )

    def __init__(self, agent: ReActAgent, memory: Memory, model: Model) -> None:
        self.agent = agent
        self.memory = memory
        self.model = model
        self.iteration = 0
        self.messages: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.usage = Usage()
        self.shown: Shown
        self.text = ""
        self.terminal: tuple[str, Any] | None = None

    async def loop(self, text: str) -> Reply:
        """Ask the model and act, until there is a reason to stop."""
        self.remember({"role": "user", "content": readable(text)})
        faulty = same = 0
        before: list[tuple[str, dict[str, Any], str]] = []
        while self.iteration < self.agent.max_iterations:
            self.iteration += 1
            prompt = self.prompt()
            try:
                given: Any = self.model.complete(prompt, actions=self.shown.actions or None)
                if inspect.isawaitable(given):
                    given = await given
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                return self.end("cancelled", detail="the model's answer was cancelled")
            except Exception as error:
                logger.exception("the model of agent %r failed", self.agent.id)
                return self.end("error", detail=_told(error), error=error)
            self.add_usage(given)
            answer = read_answer(given, self.find, self.known)
            if answer.text:
                self.text = answer.text
            if answer.faulty:
                self.remember_faults(answer)
                faulty += 1
                same, before = 0, []
                if faulty == 2:
                    return self.end("unreadable", detail=answer.faults)
                continue
            faulty = 0
            if not answer.calls:
                self.remember({"role": "assistant", "content": answer.text})
                limit = getattr(given, "finish_reason", None) == "length"
                return self.end("done", detail="cut at the model's length limit" if limit else "")
            contents = await self.act(answer)
            if self.terminal is not None:
                self.text, value = self.terminal
                return self.end("terminal", value=value)
            now = [
                (call.name, call.args, content)
                for call, content in zip(answer.calls, contents, strict=True)
            ]
            same = same + 1 if now == before else 1
            before = now
            if same == SAME_CALLS:
                names = " and ".join(dict.fromkeys(f'"{name}"' for name, _, _ in now))
                return self.end(
                    "no_progress",
                    detail=f"{names} called {SAME_CALLS} times in a row with the same arguments "
                    "and the same result",
                )
        detail = f"no answer after {self.iteration} iterations"
        if faulty:
            detail += f"; the last could not be used: {answer.faults}"
        return self.end("max_iterations", detail=detail)

    def remember(self, message: dict[str, Any]) -> None:
        """Keep a message, in memory and for the reply."""
        self.messages.append(message)
        self.memory.add_memory(message)

    def prompt(self) -> list[dict[str, Any]]:
        """What the model is to see now; memory, actions and goals may have changed meanwhile."""
        agent = self.agent
        self.shown = agent._show()
        prompt = self.memory.get_memories()
        if agent.system_prompt or agent._goals:
            system = system_text(agent.system_prompt, agent._goals or ())
            prompt = [{"role": "system", "content": system}, *prompt]
        return prompt

    def add_usage(self, given: Any) -> None:
        """Add what an answer of the model has used."""
        # Before anything is read: what cannot be read has been paid for all the same.
        usage = getattr(given, "usage", None)
        if isinstance(usage, Usage):
            self.usage = self.usage + usage

    def find(self, name: str) -> tuple[str, Action | None]:
        """The public name and the action that a name of the model's stands for."""
        agent = self.agent
        public = self.shown.public.get(name, name)
        found = agent.actions.get_action(public)
        if found is None:
            found = agent.discovered.get(public)
        return public, found

    def known(self) -> list[str]:
        """The names that the model may call."""
        return [action.name for action in self.shown.actions]

    def remember_faults(self, answer: Answer) -> None:
        """Remember an answer that cannot be used, and tell the model why."""
        if answer.calls:
            self._remember_calls(answer)
            for call in answer.calls:
                content = result_content({"error": call.fault or NOT_RUN}, MAX_RESULT_CHARS)
                self._remember_result(call, content)
        else:
            # Some chat formats need an answer between two messages of the user.
            self.remember({"role": "assistant", "content": answer.text or "(no answer)"})
            self.remember({"role": "user", "content": answer.faults})

    def _remember_calls(self, answer: Answer) -> None:
        calls = [{"id": c.id, "name": c.shown, "args": c.args} for c in answer.calls]
        self.remember({"role": "assistant", "content": answer.text, "tool_calls": calls})

    def _remember_result(self, call: Wanted, content: str) -> None:
        self.remember(
            {"role": "tool", "tool_call_id": call.id, "name": call.shown, "content": content}
        )

    async def act(self, answer: Answer) -> list[str]:
        """Execute the calls of an answer at once; remember them and their results in their order.

        Both are remembered together at the end: a call without its result is never in memory,
        whatever happens meanwhile.
        """
        calls = answer.calls
        results: list[dict[str, Any] | None] = [None] * len(calls)
        execute = self.agent._execute
        try:
            if len(calls) == 1:
                results[0] = await execute(calls[0])
            else:

                async def into(place: int) -> None:
                    results[place] = await execute(calls[place])

                await asyncio.gather(*map(into, range(len(calls))))
        finally:
            contents = self._keep(answer, results)
        return contents

    def _keep(self, answer: Answer, results: list[dict[str, Any] | None]) -> list[str]:
        contents = []
        limit = self._room(len(results))
        self._remember_calls(answer)
        for call, result in zip(answer.calls, results, strict=True):
            if result is None:
                result = {"tool_executed": False, "error": "cancelled"}
            error = result.get("error")
            error = None if error is None else str(error)
            self.steps.append(Step(self.iteration, call.name, call.args, result, error))
            content = result_content(result, limit)
            contents.append(content)
            self._remember_result(call, content)
            assert call.action is not None
            if (
                call.action.terminal
                and self.terminal is None
                and error is None
                and result.get("tool_executed", True)
            ):
                value = result.get("result")
                self.terminal = ("" if value is None else json_text(value), value)
        return contents

    def _room(self, results: int) -> int:
        """How many characters of each result fit, so that together they leave room in the context.

        As many characters as the context has tokens: half of it, at two characters a token.
        """
        context = getattr(self.model, "context_tokens", None)
        if not isinstance(context, int):
            return self.agent.max_result_chars
        return min(self.agent.max_result_chars, max(context // results, _LEAST_CHARS))

    def end(
        self,
        reason: StopReason,
        *,
        value: Any = None,
        detail: str = "",
        error: BaseException | None = None,
    ) -> Reply:
        """The reply, and why there is no more of it."""
        return Reply(
            self.text,
            value if reason == "terminal" else self.text,
            self.messages,
            self.steps,
            self.usage,
            reason,
            detail,
            error,
        )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""The plan and the outline of research, for a person to see and change before it begins."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from moothall import Action, InvalidArguments
from moothall.build import UnreadableText, escaped, json_line, one_line
from moothall.research.findings import Heading, ResearchTask
from moothall.research.writing.answers import tasks_in

ANSWER_HINT: Final = 'Answer "yes" to begin, "no" to stop, the changed lines, or what is to change.'


class ReplyingAgent(Protocol):
    """An agent that is asked in words."""

    async def reply(self, text: str, *, thread: str | None = None) -> Any:
        """Answer a text."""
        ...


_YES: Final = frozenset(("", "y", "yes", "ok", "okay", "go", "go on", "begin", "start", "fine"))
_NO: Final = frozenset(("n", "no", "stop", "quit", "cancel"))
_HEADING: Final = re.compile(r"\s*#{1,6}[ \t]+([^|\n]*?)[ \t]*(?:\|[ \t]*(.*?))?[ \t]*")
_TASK: Final = re.compile(r"\s*[-*][ \t]+(\S+)[ \t]*(.*?)[ \t]*")


@dataclass
class ProposedPlan:
    """What research is about to do; a reviewer may change its lists.

    As a text it has a line for each section and for each task.

    Attributes:
        objectives: what is to be found out
        tasks: the tasks of the first iteration
        outline: the sections of the report; empty for a report without an outline
    """

    objectives: list[str]
    tasks: list[ResearchTask]
    outline: list[Heading] = field(default_factory=list)

    def __str__(self) -> str:
        sections = [
            f"## {each.heading}{f' | {each.about}' if each.about else ''}" for each in self.outline
        ]
        tasks = [f"- {each.tool} {json_line(each.args)}" for each in self.tasks]
        return "\n".join(map(escaped, (*sections, *tasks)))

    def edited(self, text: str, tools: Mapping[str, Action]) -> ProposedPlan | None:
        """Return the plan of lines that somebody has changed; None if the text has no such lines.

        Raises:
            InvalidArguments: a task cannot be done
        """
        outline: list[Heading] = []
        tasks: list[ResearchTask] = []
        has_lines = False
        for line in text.splitlines():
            if heading_match := _HEADING.fullmatch(line):
                has_lines = True
                description = one_line(heading_match[2] or "", 500)
                outline += (
                    [Heading(one_line(heading_match[1], 120), description)]
                    if heading_match[1]
                    else []
                )
            elif (task_match := _TASK.fullmatch(line)) and task_match[1].strip(":") in tools:
                has_lines = True
                task_json = json_line([{"tool": task_match[1].strip(":"), "args": task_match[2]}])
                try:
                    tasks += tasks_in(task_json, tools)
                except UnreadableText as error:
                    raise InvalidArguments(f"the line {one_line(line, 80)!r} {error}") from None
        return ProposedPlan(self.objectives, tasks, outline) if has_lines else None

    def answered(self, text: str, tools: Mapping[str, Action]) -> ProposedPlan | str | bool:
        """Return what an answer says: whether to begin, a changed plan, or what is to change."""
        answer = text.strip().rstrip(".!").lower()
        if answer in _YES:
            return True
        if answer in _NO:
            return False
        return self.edited(text, tools) or text.strip()


Review: TypeAlias = ProposedPlan | str | bool | None
Reviewer: TypeAlias = Callable[[ProposedPlan], Review | Awaitable[Review]] | ReplyingAgent
"""Sees a plan before it begins: a function, sync or async, or an agent that replies, a `Person`.

None or True lets it begin, with the lists as the reviewer leaves them; a `ProposedPlan` replaces
it; False stops the research; a text says what to change, and the planner writes another plan.
"""

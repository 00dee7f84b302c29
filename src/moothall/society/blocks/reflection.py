"""A day's reflection: what a citizen led by a model takes with it from the day before."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moothall import BlockParams
from moothall.build import object_schema
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams
from moothall.society.clock import DAY_S
from moothall.society.columns.rows import Rows
from moothall.society.kernel.mind import THOUGHT, recall_events

_MAX_THOUGHT = 200  # the characters of a thought, at most


class ReflectionBlockParams(CitizenBlockParams):
    """How much a citizen reflects on."""

    thoughts: int = Field(default=3, ge=1, le=20, description="what it takes from a day, at most")
    events_tokens: int = Field(
        default=1500, ge=1, le=100_000, description="tokens of the day that it looks at, at most"
    )


class ReflectionBlock(CitizenBlock):
    """Sums up the day before, by the citizen's model, in thoughts that it remembers.

    In the first step of a day the model is shown the events of the day before that weigh most, and
    answers with a few thoughts, as in Park et al. 2023, "Generative agents" (arXiv:2304.03442). A
    thought is an event of the stream, and weighs as much as what was said or heard. By rule,
    and without events, nothing happens. It is not among `all_blocks()`: a citizen may do without.
    """

    description = "Reflects on the day before"
    actions: dict[str, str] = {"reflect": "Sum up the day before"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = ReflectionBlockParams
    params: ReflectionBlockParams

    async def before_forward(self) -> None:
        """Reflect once a day on the day before."""
        status, day = self.status, self.now // DAY_S
        last_day = status.get("reflected")
        if self.llm is None or not self.params.by_model or last_day == day:
            return
        status["reflected"] = day
        stream = [
            each
            for each in self.agent.memory.stream
            if isinstance(each, tuple)
            and self.perceived.seconds_since(each[0]) <= DAY_S
            and not each[1].startswith(THOUGHT)
        ]
        if last_day is None or not stream:
            return
        limit, tokens = self.params.thoughts, self.params.events_tokens
        thoughts = {
            "type": "array",
            "minItems": 1,
            "maxItems": limit,
            "items": {"type": "string", "minLength": 1, "maxLength": _MAX_THOUGHT},
        }
        answer = await self.decide(
            "Reflect on the day before: say what you learned of others, of yourself and of what is "
            "to be done, each in a sentence.",
            object_schema(thoughts=thoughts),
            day_before=recall_events(stream, self.perceived, "", tokens),
        )
        for thought in () if answer is None else answer["thoughts"]:
            self.note(f"{THOUGHT}{thought}")

    async def forward(self) -> None:
        """Do nothing: it reflects before a step."""

    def before_rows(self, rows: Rows) -> None:
        """Do nothing: rows have no model."""

    def step_rows(self, rows: Rows) -> None:
        """Do nothing, as `forward`."""

"""A survey of one question that a page requests: asked of the citizens, and summed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from os import environ
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field

from moothall import ConfigError
from moothall.models import made_model
from moothall.studio.towns.town import MAX_CITIZENS

if TYPE_CHECKING:
    from moothall import Model, Society
    from moothall.society import Respondent

_MAX_ANSWERS: Final = 200
"""The most answers that a page lists."""


class ModelChoice(BaseModel):
    """A question of a page, and the model that answers for citizens; the town's own if empty."""

    model: str = Field("", max_length=200)

    def make_model(self) -> Model | None:
        """Return the model that the page names; ConfigError or ModelError if it is of no use."""
        name = self.model.strip()
        return made_model(name, environ.get("MOOTHALL_KEY")) if name else None


class CitizenQuestion(ModelChoice):
    """A question of a page to one citizen."""

    citizen: str
    question: str = Field(min_length=1, max_length=2_000)


class SurveyOfAll(ModelChoice):
    """A survey of one question that a page requests."""

    text: str = Field(min_length=1, max_length=2_000)
    kind: str = Field(max_length=20)
    choices: list[str] = []
    by: str = Field("", max_length=200)
    citizens: int = Field(100, ge=1, le=MAX_CITIZENS)

    async def run(self, society: Society, has_model: bool) -> dict[str, Any]:
        """Ask several citizens, between two steps; return what a page shows of it."""
        from moothall.society import Question, Survey

        kind = Question.kinds.get(self.kind)
        if kind is None or not kind.label:
            kinds = [name for name, each in Question.kinds.items() if each.label]
            raise ConfigError(f"kind must be one of {', '.join(kinds)}, got {self.kind!r}")

        model = self.make_model()
        if not self.by and model is None and not has_model:
            raise ConfigError("name a model, or choose which state stands for the answer")
        choices = tuple(each.strip() for each in self.choices if each.strip())
        if kind.has_choices and len({*choices}) < max(2, len(choices)):
            raise ConfigError("write two choices or more, each once, with commas between them")
        rule = _rule(self, lambda share: kind.by_share(question, share))
        question = Question("answer", self.text, self.kind, choices, by=rule)
        ids = [*society.books.where]
        step = max(1, len(ids) // self.citizens)
        chosen_ids = ids[::step][: self.citizens]
        answers = await society.survey(Survey(self.text, [question]), chosen_ids, model=model)
        counts = Counter(each.value for each in answers)
        options = kind.offered(question)
        values = [*options, *(counts.keys() - {*options})]  # also what nobody has chosen
        rows = [
            [each.citizen, each.value, each.source, each.reason] for each in answers[:_MAX_ANSWERS]
        ]
        return {
            "kind": "survey",
            "question": self.text,
            "by": self.by,
            "asked": len(answers),
            "counts": [[value, counts[value]] for value in values],
            "sources": Counter(each.source for each in answers),
            "answers": rows,
        }


def _rule(
    survey: SurveyOfAll, by_share: Callable[[float], Any]
) -> Callable[[Respondent], Any] | None:
    """Return how a citizen without a model answers: its need or opinion, scaled to the answers."""
    kind, _, name = survey.by.partition(" ")
    low, high = {"need": (0, 1000), "opinion": (-1000, 1000)}.get(kind, (0, 0))
    if low == high:
        return None

    def rule(respondent: Respondent) -> Any:
        return by_share((respondent.status[f"{kind}s"][name] - low) / (high - low))

    return rule

"""What a workbench needs of its researcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from moothall.agents import ReplyingOptions

if TYPE_CHECKING:
    from moothall import Action, Model
    from moothall.budget import Budget
    from moothall.research.writing.review import Reviewer
    from moothall.research.writing.style import Style


class ResearcherOptions(ReplyingOptions, total=False):
    """What a researcher takes by name, with the options of its style."""

    length: int | None
    tone: str
    language: str


class ResearcherProtocol(Protocol):
    """What a workbench needs of its researcher."""

    id: str | int
    steps: dict[str, Any]
    role: str
    target: float
    max_tasks: int
    iterations: int
    budget: Budget | None
    style: Style
    outline: bool | list[str]
    context_tokens: int | None
    review_plan: Reviewer | None

    @property
    def tools(self) -> dict[str, Action]:
        """What it may call, by name."""
        ...

    @property
    def judge(self) -> Model | None:
        """The model that judges citations; None for exact checks alone."""
        ...

    @property
    def model(self) -> Model | None:
        """The model; None in the extractive form."""
        ...

    def model_of(self, step: str) -> Model | None:
        """Return the model of a step; None in the extractive form."""
        ...

    def with_note(self, error: BaseException, step: str, block: Any = None) -> BaseException:
        """Return an error with a note that says where it was raised."""
        ...


def can_plan(model: object) -> bool:
    """Return whether a model plans, rewrites and evaluates; one in this process is too small."""
    return model is not None and getattr(model, "in_process", False) is not True

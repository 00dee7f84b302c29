"""The tab Act and review: watch, permit and review work on the files of a folder."""

from __future__ import annotations

import os
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.models import DEFAULT_WEIGHTS, LISTED_WEIGHTS, other_weights
from moothall.studio.orders.act import ITERATIONS
from moothall.studio.orders.examples import ask_for_refund
from moothall.studio.orders.order import ActOrder
from moothall.studio.page import STATIC, Field, PageForm, Tab, limit_fields, non_empty_fields

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import APIRouter

    from moothall.studio.jobs import TabHub

_RUN_KINDS: Final = {("ReActAgent", "files"), ("DualActAgent", "act")}
"""The runs of `moothall act`: kind and id of the agent."""


class ActTab(Tab):
    """Starts and pauses orders of `moothall act`; steers and stops the runs of any tab."""

    name = "act"
    title = "Act and review"
    script: Path | None = STATIC / "act.js"

    def __init__(self, studio: TabHub) -> None:
        self._hub = studio

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; without `async`, each runs in a thread."""
        from fastapi import Body

        @router.post("/example")
        def start_example() -> dict[str, str]:
            hub, run = self._hub, secrets.token_hex(8)
            work = partial(ask_for_refund, run, hub.journal, hub.cards)
            return {"run": hub.jobs.run(run, work, "an example")}

        @router.post("/{command}")
        def command_run(
            command: Literal["stop", "pause", "unpause", "steer", "resume"],
            run: str = Body(),
            text: str = Body(""),
            more: dict[str, float] | None = Body(None),  # noqa: B008
        ) -> dict[str, str]:
            if command == "resume":
                return {"run": self._hub.jobs.resume(run, more or {}, text)}
            if command == "steer":
                self._hub.jobs.steer(run, text)
            else:
                getattr(self._hub.jobs, command)(run)
            return {"run": run}

    def start(self, **fields: Any) -> str:
        """Start what the form asks for, by fields of `Order`; return the run's id."""
        return self._hub.jobs.start(ActOrder(**{"task": "", **non_empty_fields(fields)}))

    def forms(self) -> list[PageForm]:
        """Return the form: task, folder, model, reviewer and limits."""
        models = [(each, each) for each in usable_models()]
        reviewers = [("me", "you, at this page"), *models]
        iterations_hint = f"{ITERATIONS}; local: 1"
        journal = self._hub.journal
        fields = [
            Field("task", "Task", "text", hint="Fix the typos in notes.md", wide=True),
            Field("root", "Folder that it works on", value=os.getcwd()),
            Field("model", "Model", "named", options=models, value=models[0][0]),
            Field(
                "review", "Reviewer", "named", options=reviewers, hint="nobody; or me, or a model"
            ),
            Field("yes_read", "May read without asking", "check", value=True),
            # The model in the box goes nowhere after one.
            Field("max_iterations", "Answers at most", "whole", hint=iterations_hint, more=True),
            *limit_fields(),
        ]
        return [
            PageForm(
                name="new",
                title="New work",
                fields=fields,
                start=self.start,
                is_open=not any(journal.runs(kind=k, agent=a, limit=1) for k, a in _RUN_KINDS),
                about="Writing, editing and commands ask you one by one. Keys are those of the "
                "environment: MOOTHALL_KEY, else the provider's own variable.",
            )
        ]


def usable_models() -> list[str]:
    """Return the names of models that a form offers: those on this machine or with a key."""
    on_disk = (each for each in LISTED_WEIGHTS if each is DEFAULT_WEIGHTS or each.path.exists())
    gguf_models = (f"gguf:{each}" for each in other_weights())
    remote = ["openai:gpt-4o-mini"] if os.environ.get("OPENAI_API_KEY") else []
    return [*(each.model_name for each in on_disk), *gguf_models, *remote]

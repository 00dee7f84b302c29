"""The tab Act and review: watch, permit and review work on the files of a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.models import weights
from moothall.orders.act import ITERATIONS
from moothall.orders.order import Order
from moothall.studio.page import begins, filled, folded, limits, start_button

if TYPE_CHECKING:
    from fastapi import APIRouter

    from moothall.studio.hub import Hub
    from moothall.studio.jobs import Jobs

_RUNS: Final = {("ReActAgent", "files"), ("DualActAgent", "act")}
"""The runs of `moothall act`: kind and id of the agent."""


class ActTab:
    """Starts and pauses orders of `moothall act`; steers and stops the runs of any tab."""

    name = "act"
    title = "Act and review"

    def __init__(self, hub: Hub, jobs: Jobs) -> None:
        self._hub = hub
        self._jobs = jobs

    def routes(self, router: APIRouter) -> None:
        """Add the routes that pages call; without `async`, each runs in a thread."""
        from fastapi import Body

        @router.post("/{change}")
        def changed(
            change: Literal["stop", "pause", "unpause", "steer", "resume"],
            run: str = Body(),
            text: str = Body(""),
            more: dict[str, float] | None = Body(None),  # noqa: B008
        ) -> dict[str, str]:
            if change == "resume":
                return {"run": self._jobs.resume(run, more or {})}
            if change == "steer":
                self._jobs.steer(run, text)
            else:
                getattr(self._jobs, change)(run)
            return {"run": run}

    def start(self, **given: Any) -> str:
        """Start what the form asks for, by fields of `Order`; return the run's id."""
        return self._jobs.start(Order(**{"task": "", **filled(given)}))

    def form(self) -> None:
        """Add the form: task, folder, model, reviewer and limits."""
        import gradio

        models = usable_models()
        free: dict[str, Any] = {"allow_custom_value": True, "min_width": 140}
        with gradio.Accordion("New work", open=False, elem_id="act-new") as form:
            with gradio.Row():
                fields = {
                    "task": gradio.Textbox(
                        label="Task", placeholder="Fix the typos in notes.md", lines=5, scale=3
                    )
                }
                with gradio.Column(scale=2):
                    fields["root"] = gradio.Textbox(os.getcwd(), label="Folder that it works on")
                    with gradio.Row():
                        fields["model"] = gradio.Dropdown(models, label="Model", **free)
                        who = [("nobody", ""), ("me", "me"), *models]
                        fields["review"] = gradio.Dropdown(who, value="", label="Reviewer", **free)
            with gradio.Row():
                fields["yes_read"] = gradio.Checkbox(True, label="May read without asking")
                fields |= limits(max_iterations=("Answers", 0))
                button = start_button()
            gradio.Markdown(
                "Writing, editing and commands are asked about one by one, in cards above. Keys "
                "are those of the environment: `MOOTHALL_KEY`, else the provider's own variable. "
                f"Without a limit, answers are {ITERATIONS}, and 1 of the model in the box (local)."
            )

        def now() -> Any:
            return folded(self._hub.journal.runs(), lambda run: (run.kind, run.agent) in _RUNS)

        begins(button, self.start, fields, form, now)


def usable_models() -> list[str]:
    """Return the names of models that a form offers: those on this machine or with a key."""
    listed = [
        "local" if each is weights.DEFAULT else f"local:{each.name}"
        for each in weights.LISTED
        if each is weights.DEFAULT or each.path.exists()
    ]
    known = {each.path for each in weights.LISTED}
    fetched = [
        f"gguf:{each}" for each in sorted(weights.folder().glob("*.gguf")) if each not in known
    ]
    served = ["openai:gpt-4o-mini"] if os.environ.get("OPENAI_API_KEY") else []
    return [*listed, *fetched, *served]

"""The tab Act and review: work on the files of a folder, looked on, permitted and reviewed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import CivitasError, ConfigError
from civitas.journal.entry import Outline
from civitas.models import weights
from civitas.orders.act import ITERATIONS
from civitas.orders.order import Order

if TYPE_CHECKING:
    from fastapi import APIRouter

    from civitas.studio.studio import Studio

_RECENT: Final = 50
"""So many runs can be picked, the newest."""
_KINDS: Final = {("ReActAgent", "files"), ("DualActAgent", "act")}
"""The runs of `civitas act`: kind and id of the agent."""


class ActTab:
    """Orders of `civitas act`, and the runs that come of them."""

    name = "act"
    title = "Act and review"

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    # -- what pages ask ----------------------------------------------------------------------------

    def runs(self) -> list[dict[str, Any]]:
        """Outlines of the newest runs of `civitas act`, the newest first.

        `job` is how one that is under way here stands: `running`, `paused` or `stopping`; else
        None.
        """
        jobs = {each["run"]: each["state"] for each in self._studio.jobs.running()}
        found = [each for each in self._studio.journal.runs() if _is_act(each)]
        return [{**asdict(each), "job": jobs.get(each.id)} for each in found[: -_RECENT - 1 : -1]]

    def routes(self, router: APIRouter) -> None:
        """What pages call. Without `async`: each runs in a thread."""
        from fastapi import Body

        jobs = self._studio.jobs
        router.get("/runs")(self.runs)

        def answer(name: str, change: Callable[[str], str | None]) -> None:
            @router.post(f"/{name}")
            def changed(run: str = Body(embed=True)) -> dict[str, str]:
                return {"run": change(run) or run}

        answer("stop", jobs.stop)
        answer("pause", jobs.pause)
        answer("go_on", jobs.go_on)
        answer("resume", jobs.resume)

        @router.post("/steer")
        def steer(run: str = Body(), text: str = Body()) -> dict[str, str]:
            jobs.steer(run, text)
            return {"run": run}

    # -- the form ----------------------------------------------------------------------------------

    def start(
        self,
        task: str,
        folder: str,
        model: str | None,
        review: str | None,
        may_read: bool,
        *limits: float | None,
    ) -> str:
        """Begin what a form asks for; gives the run's id.

        Raises:
            ConfigError: what the form says does not go together
            CivitasError: as `Jobs.start`
        """
        if any(each is not None and each < 0 for each in limits):
            raise ConfigError("a limit must be more than 0")
        answers, tokens, seconds = limits
        order = Order(
            task.strip(),
            os.path.expanduser(folder.strip()) or ".",
            (model or "").strip() or "local",
            False,
            (review or "").strip() or None,
            int(answers or 0) or None,
            seconds or None,
            int(tokens or 0) or None,
            may_read,
            False,
        )
        return self._studio.jobs.start(order)

    def form(self) -> None:
        """What is to be done, where, by whom, who reviews it, and what it may take."""
        import gradio

        def start(*given: Any) -> Any:
            try:
                self.start(*given)
            except CivitasError as error:
                raise gradio.Error(escape(str(error)), print_exception=False) from error
            return gradio.update(open=False)

        models = usable_models()
        with gradio.Accordion("New work", open=False, elem_id="act-new") as form:
            with gradio.Row():
                task = gradio.Textbox(
                    label="Task", placeholder="Fix the typos in notes.md", lines=5, scale=3
                )
                with gradio.Column(scale=2):
                    folder = gradio.Textbox(os.getcwd(), label="Folder that it works on")
                    with gradio.Row():
                        model = gradio.Dropdown(
                            models, label="Model", allow_custom_value=True, min_width=140
                        )
                        review = gradio.Dropdown(
                            [("nobody", ""), ("me", "me"), *models],
                            value="",
                            label="Reviewer",
                            allow_custom_value=True,
                            min_width=140,
                        )
            with gradio.Row(equal_height=True):
                read = gradio.Checkbox(True, label="May read without asking", min_width=200)
                limits = [
                    gradio.Number(0, label=what, precision=digits, min_width=120)
                    for what, digits in (
                        ("Most answers (0: as usual)", 0),
                        ("Most tokens (0: no limit)", 0),
                        ("Most seconds (0: no limit)", 1),
                    )
                ]
                button = gradio.Button("Start", variant="primary", scale=0, min_width=140)
            gradio.Markdown(
                "Writing, editing and commands are asked about one by one, in cards above. Keys "
                "are those of the environment: `CIVITAS_KEY`, else the provider's own variable. "
                f"The usual answers are {ITERATIONS}, and 1 of the model in the box (local)."
            )
        gradio.on(  # when a page is opened
            None,
            lambda: gradio.update(open=not self.runs()),
            None,
            form,
            show_progress="hidden",
            api_visibility="private",
        )
        button.click(
            start,
            [task, folder, model, review, read, *limits],
            form,
            show_progress="hidden",
            api_visibility="private",
        )


def usable_models() -> list[str]:
    """The names of models that a form offers: those that are here, or have a key."""
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


def _is_act(run: Outline) -> bool:
    return (run.kind, run.agent) in _KINDS

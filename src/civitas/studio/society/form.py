"""What a person fills in to set up a town, or to go on with a recorded one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import CivitasError, ConfigError
from civitas.studio.society.town import MOST

if TYPE_CHECKING:
    from civitas.orders.simulate import SimulateOrder

_STEPS: Final = ("5min", "15min", "30min", "1h")


def form(
    set_up: Callable[[SimulateOrder], None],
    load: Callable[[str], None],
    recorded: Callable[[], list[tuple[str, str]]],
) -> None:
    """Add the components of Gradio.

    Args:
        set_up: makes a town
        load: goes on with a recorded run
        recorded: the runs that there are, as (label, id)
    """
    import gradio

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    with gradio.Accordion("Set up a town, or go on with one", open=True) as form:
        with gradio.Row():
            citizens = gradio.Number(300, label="Citizens", precision=0, min_width=90)
            days = gradio.Number(1, label="Days", min_width=70)
            step = gradio.Dropdown(_STEPS, value="15min", label="Length of a step", min_width=110)
            seed = gradio.Number(0, label="Seed", precision=0, min_width=90)
            model = gradio.Textbox(label="Model", placeholder="none: by rules", min_width=170)
            calls = gradio.Number(1000, label="Calls of it at most", precision=0, min_width=90)
            begin = gradio.Button("Set up", variant="primary", min_width=90)
        with gradio.Row():
            run = gradio.Dropdown([], value=None, label="Recorded towns", scale=5)
            resume = gradio.Button("Go on", min_width=90, scale=1)

    async def begin_one(
        citizens: float, days: float, step: str, seed: float, model: str, calls: float
    ) -> Any:
        def make() -> None:
            set_up(_order(citizens, days, step, seed, model, calls))

        await asyncio.to_thread(_said, make)
        return gradio.Accordion(open=False)

    async def go_on(run: str | None) -> Any:
        if not run:
            raise gradio.Error("choose a recorded town first", print_exception=False)
        await asyncio.to_thread(_said, lambda: load(run))
        return gradio.Accordion(open=False)

    def _said(work: Callable[[], None]) -> None:
        try:
            work()
        except CivitasError as error:
            raise gradio.Error(str(error).replace("--", ""), print_exception=False) from error

    begin.click(begin_one, [citizens, days, step, seed, model, calls], form, **quiet)
    resume.click(go_on, run, form, **quiet)
    run.focus(lambda: gradio.Dropdown(recorded()), None, run, **quiet)


def _order(
    citizens: float, days: float, step: str, seed: float, model: str, calls: float
) -> SimulateOrder:
    from civitas.orders.order import without_keys
    from civitas.orders.simulate import SimulateOrder, check

    if not 10 <= (citizens or 0) <= MOST:
        raise ConfigError(f"citizens must be from 10 to {MOST:,}, got {citizens}")
    named = (model or "").strip() or None
    order = SimulateOrder(
        int(citizens),
        float(days or 0),
        int(seed or 0),
        step,
        named,
        max_calls=int(calls or 0) or None if named else None,
    )
    check(order)
    without_keys(order)
    if order.is_remote and not order.max_calls:
        raise ConfigError(
            "a model on a server needs a limit: say how many calls of it there may be"
        )
    return order

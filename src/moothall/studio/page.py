"""The Gradio page: its tabs, their forms, and the places of the live parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from moothall.errors import ConfigError, MoothallError

if TYPE_CHECKING:
    from moothall.journal.entry import Outline

# Gradio's own calls carry the key of the page, too.
_HEAD: Final = """
<script>{
  const fetched = window.fetch;
  window.fetch = async (to, how) => {
    const asked = new Request(to, how);
    asked.headers.set("X-Moothall-Key", localStorage.getItem("moothall-studio-key"));
    const answer = await fetched(asked);
    if (answer.status === 401) location.replace("/login");
    return answer;
  };
}</script>
<link rel="stylesheet" href="/studio/static/studio.css">
<script type="module" src="/studio/static/studio.js"></script>
"""
STATIC: Final = Path(__file__).parent / "static"
QUIET: Final[dict[str, Any]] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of a form's calls: no public API, and no progress indicator over the fields."""
_COLOURS: Final = {  # light, and dark
    "button_primary_background_fill": ("#0f766e", "#2dd4bf"),
    "button_primary_background_fill_hover": ("#115e59", "#5eead4"),
    "button_primary_text_color": ("#ffffff", "#042f2c"),
    "block_label_text_color": ("#334155", "#cbd5e1"),
    "block_title_text_color": ("#334155", "#cbd5e1"),
    "body_text_color_subdued": ("#475569", "#cbd5e1"),
    "input_placeholder_color": ("#64748b", "#94a3b8"),
}


class Tab(Protocol):
    """One tab of the page; its routes, and its script if it has one, are called `name`."""

    name: str
    title: str

    def routes(self, router: Any) -> None:
        """Add the tab's routes, below `/studio/NAME`."""

    def form(self) -> None:
        """Add the tab's Gradio components, above what its script shows."""


def mount(name: str) -> None:
    """Add a place that the script `static/NAME.js` fills."""
    import gradio

    # Not `gradio.HTML`: its templates are evaluated in the browser, which the page does not permit.
    gradio.Column(elem_id=f"studio-{name}", elem_classes="studio-live")


def begins(
    button: Any,
    work: Callable[..., object],
    fields: Mapping[str, Any],
    shown: Any,
    now: Callable[[], Any],
) -> None:
    """Let a button call `work` with the fields' values; `now()` updates `shown`, also on load."""
    import gradio

    def answer(*values: Any) -> Any:
        given = dict(zip(fields, values, strict=True))
        try:
            for name, each in given.items():  # Gradio's own check does not say which field
                if isinstance(each, int | float) and each < 0:
                    raise ConfigError(f"“{fields[name].label}” must be 0 or more, got {each}")
            work(**given)
        except MoothallError as error:
            raise gradio.Error(escape(_of_form(error, fields)), print_exception=False) from error
        return now()

    button.click(answer, [*fields.values()], shown, **QUIET)
    gradio.on(None, now, None, shown, **QUIET)


def _of_form(error: MoothallError, fields: Mapping[str, Any]) -> str:
    """Return an error with a form's labels in the place of a command's options."""
    text = str(error).replace("give --", "fill in --")
    for name, each in fields.items():
        option = rf"(?<!\S)--{name.replace('_', '-')}(?: [A-Z]+)?(?![\w-])"
        text = re.sub(option, f"“{each.label.partition(':')[0]}”", text)
    return text


def field(label: str, placeholder: str) -> Any:
    """Return a text field of one line."""
    import gradio

    return gradio.Textbox(label=label, placeholder=placeholder, max_lines=1, min_width=140)


def start_button() -> Any:
    """Return the button that starts what a form asks for."""
    import gradio

    return gradio.Button("Start", variant="primary", min_width=120, elem_classes="studio-start")


_LIMITS: Final = {
    "max_usd": ("US dollars", None),
    "max_tokens": ("Tokens", 0),
    "max_seconds": ("Seconds", None),
}


def limits(**more: tuple[str, int | None]) -> dict[str, Any]:
    """Return fields for a run's limits; `more` has further names with (label, decimal places)."""
    import gradio

    any: dict[str, Any] = {"min_width": 120, "info": "0: not set"}
    of = {**more, **_LIMITS}
    return {name: gradio.Number(0, label=of[name][0], precision=of[name][1], **any) for name in of}


def folded(runs: Iterable[Outline], has: Callable[[Outline], bool]) -> Any:
    """Return an update of a form's accordion: open unless `has` is true of a run."""
    import gradio

    return gradio.update(open=not any(map(has, runs)))


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an order that a form sets: not blank, and no limit of 0."""
    said: Any = {
        name: each.strip() if isinstance(each, str) else each for name, each in given.items()
    }
    for name in {"root", "folder"} & said.keys():
        said[name] = os.path.expanduser(said[name])
    return {name: each for name, each in said.items() if each or each is False}


def look() -> dict[str, Any]:
    """Return Gradio's options for the theme, with the machine's own fonts, scripts and icon."""
    import gradio

    theme = gradio.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        spacing_size="sm",
        radius_size="sm",
        text_size="md",
        font=("system-ui", "sans-serif"),
        font_mono=("ui-monospace", "Menlo", "Consolas", "monospace"),
    ).set(
        **{name: light for name, (light, _) in _COLOURS.items()},
        **{f"{name}_dark": dark for name, (_, dark) in _COLOURS.items()},
    )
    return {"theme": theme, "head": _HEAD, "favicon_path": STATIC / "icon.svg"}


def blocks(tabs: Sequence[Tab], opens: str) -> Any:
    """Return the whole page."""
    import gradio

    with gradio.Blocks(title="moothall studio", analytics_enabled=False, fill_width=True) as page:
        mount("header")
        with gradio.Tabs(selected=opens, elem_id="studio-tabs"):
            for tab in tabs:
                with gradio.Tab(tab.title, id=tab.name, elem_id=f"tab-{tab.name}"):
                    tab.form()
                    if (STATIC / f"{tab.name}.js").exists():  # a user's own tab has no script
                        mount(tab.name)
    return page

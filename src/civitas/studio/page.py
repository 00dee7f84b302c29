"""The page as Gradio has it: its tabs, the forms in them, and where the live parts are put."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from civitas.errors import CivitasError, ConfigError

if TYPE_CHECKING:
    from civitas.journal.entry import Outline

# Gradio's own calls carry the key of the page, too.
_HEAD: Final = """
<script>{
  const fetched = window.fetch;
  window.fetch = async (to, how) => {
    const asked = new Request(to, how);
    asked.headers.set("X-Civitas-Key", localStorage.getItem("civitas-studio-key"));
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
"""How a form calls this program: by no API, and without a sign over its fields."""
_FONTS: Final = ("system-ui", "sans-serif")
_MONO: Final = ("ui-monospace", "Menlo", "Consolas", "monospace")

_DARK: Final = ("", "_dark")
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
    """One tab of the page: `name` is what its routes and its script are called."""

    name: str
    title: str

    def routes(self, router: Any) -> None:
        """Add what pages call, below `/studio/NAME`."""

    def form(self) -> None:
        """Add its components of Gradio, above what its script shows."""


def live(name: str) -> None:
    """A place that a script fills: `static/NAME.js`."""
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
    """Have a button call `work` with what fields hold; `now` gives what is shown then."""
    import gradio

    def answer(*values: Any) -> Any:
        try:
            work(**dict(zip(fields, values, strict=True)))
        except CivitasError as error:
            raise gradio.Error(escape(str(error)), print_exception=False) from error
        return now()

    button.click(answer, [*fields.values()], shown, **QUIET)
    gradio.on(None, now, None, shown, **QUIET)


def field(label: str, placeholder: str = "", **more: Any) -> Any:
    """A field of one line."""
    import gradio

    wide = {"max_lines": 1, "min_width": 140, **more}
    return gradio.Textbox(label=label, placeholder=placeholder, **wide)


def start_button() -> Any:
    """What begins what a form asks for."""
    import gradio

    wide: dict[str, Any] = {"min_width": 120, "elem_classes": "studio-start"}
    return gradio.Button("Start", variant="primary", **wide)


_LIMITS: Final = {
    "max_usd": ("US dollars", None),
    "max_tokens": ("Tokens", 0),
    "max_seconds": ("Seconds", None),
}


def limits(**more: tuple[str, int | None]) -> dict[str, Any]:
    """Fields for what a run may take: of each, and of `more`, its label and decimal places."""
    import gradio

    any: dict[str, Any] = {"minimum": 0, "min_width": 120, "info": "0: not set"}
    of = {**more, **_LIMITS}
    return {name: gradio.Number(0, label=of[name][0], precision=of[name][1], **any) for name in of}


def folded(runs: Iterable[Outline], has: Callable[[Outline], bool]) -> Any:
    """A form's accordion: open where there is no run to look at that is so."""
    import gradio

    return gradio.update(open=not any(map(has, runs)))


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an order that a form says something of: not blank, and no limit of 0."""
    said: Any = {
        name: each.strip() if isinstance(each, str) else each for name, each in given.items()
    }
    if any(name.startswith("max_") and (each or 0) < 0 for name, each in said.items()):
        raise ConfigError("a limit must be more than 0")
    for name in {"root", "folder"} & said.keys():
        said[name] = os.path.expanduser(said[name])
    return {name: each for name, each in said.items() if each or each is False}


def look() -> dict[str, Any]:
    """The theme, whose fonts are the machine's own, and the scripts: what `launch` would take."""
    import gradio

    theme = gradio.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        spacing_size="sm",
        radius_size="sm",
        text_size="md",
        font=_FONTS,
        font_mono=_MONO,
    ).set(
        **{f"{name}{dark}": pair[bool(dark)] for name, pair in _COLOURS.items() for dark in _DARK}
    )
    return {"theme": theme, "head": _HEAD, "favicon_path": STATIC / "icon.svg"}


def blocks(tabs: Sequence[Tab], opens: str) -> Any:
    """The whole page."""
    import gradio

    with gradio.Blocks(title="civitas studio", analytics_enabled=False, fill_width=True) as page:
        live("header")
        with gradio.Tabs(selected=opens, elem_id="studio-tabs"):
            for tab in tabs:
                with gradio.Tab(tab.title, id=tab.name, elem_id=f"tab-{tab.name}"):
                    tab.form()
                    live(tab.name)
    return page

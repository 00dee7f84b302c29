"""The page: its shell, and the forms of its tabs as data that the page draws."""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import KW_ONLY, asdict, dataclass
from hashlib import sha256
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall import ConfigError, HumanDecision, MoothallError, StateError
from moothall.budget import RUN_LIMITS, Limit
from moothall.build import Extension
from moothall.journal import REASONS, Doubt, Journal

if TYPE_CHECKING:
    from fastapi import Response

STATIC: Final = Path(__file__).parent / "static"
_MAX_TEXT: Final = 100_000
"""The most characters of a field."""
_TAB_NAME: Final = re.compile("[a-z][a-z0-9_-]{0,39}")
_RESERVED_NAMES: Final = frozenset(
    {"cards", "events", "growing", "login", "prose", "static", "styleguide", "tabs"}
)
"""Addresses of the page itself, which no tab has."""
_UNWRITABLE_CHARS: Final = re.compile("[\0\ud800-\udfff]")
"""What no file's name and no server's text can have."""

AGREED_END: Final[ContextVar[int | None]] = ContextVar("moothall_studio_ends", default=None)
"""What the person at a page has agreed to end, by its number: 0 for nothing, None for a program."""


class WouldEnd(StateError):
    """What a page asks for would end something that lives: the person is asked before."""

    def __init__(self, text: str, ends: int) -> None:
        super().__init__(text)
        self.ends = ends

    @classmethod
    def unless_agreed(cls, text: str, ends: int) -> None:
        """Raise it, unless the person has agreed, or a program asks."""
        if AGREED_END.get() not in (None, ends):
            raise cls(text, ends)


class FormError(ConfigError):
    """What was filled in cannot be used; `argument` is the field at fault, or None."""


@dataclass(frozen=True)
class Field:
    """One field of a form.

    Attributes:
        name: the argument of the form's `start` that it fills
        label: what a person reads beside it
        kind: `line`; `text`, of several lines; `number`; `whole`, a number without a fraction;
            `check`; `choice`, one of the options; `named`, any text, with options to pick from
        value: what it has at first
        hint: an example, shown while it is empty
        about: a sentence below it
        options: pairs of a value and what a person reads
        more: whether it is folded under “More”
        wide: whether it takes a whole row
    """

    name: str
    label: str
    kind: Literal["line", "text", "number", "whole", "check", "choice", "named"] = "line"
    _: KW_ONLY
    value: str | float | bool | None = None
    hint: str = ""
    about: str = ""
    options: Sequence[tuple[str, str]] = ()
    more: bool = False
    wide: bool = False

    def read(self, value: object) -> Any:
        """Return a value that a page sent; ConfigError in words if it is of another kind."""
        if self.kind == "check":
            if isinstance(value, bool):
                return value
            raise ConfigError(f"“{self.label}” must be true or false")
        if self.kind in ("number", "whole"):
            return self._number(value)
        text = "" if value is None else value
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            raise ConfigError(f"“{self.label}” must be a text of at most {_MAX_TEXT:,} characters")
        if _UNWRITABLE_CHARS.search(text):
            raise ConfigError(f"“{self.label}” must be text without NUL and half characters")
        if self.kind == "choice" and text and text not in dict(self.options):
            raise ConfigError(f"“{self.label}” must be one of those listed, got {text!r:.80}")
        return text

    def _number(self, value: object) -> float | None:
        if value is None or value == "":
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) <= sys.float_info.max  # as NaN is not
        ):
            raise ConfigError(f"“{self.label}” must be a number, got {str(value)!r:.80}")
        if value < 0:
            raise ConfigError(f"“{self.label}” must be 0 or more, got {value}")
        if self.kind == "whole" and value != int(value):
            raise ConfigError(f"“{self.label}” must be a whole number, got {value}")
        return int(value) if self.kind == "whole" else value


@dataclass(frozen=True, kw_only=True)
class PageForm:
    """A form at the top of a tab; the page draws it, and posts what is filled in.

    Attributes:
        name: its part of the address, unique in its tab
        title: what it begins
        fields: its fields, in order
        start: is called in a thread with a value for each field; returns a run's id or None. What
            it raises as `ConfigError(text, argument=NAME)` stands below the field of that name
        button: the word on its button
        is_open: whether it is unfolded when the page loads
        about: a sentence below its fields
    """

    name: str
    title: str
    fields: Sequence[Field]
    start: Callable[..., str | None]
    button: str = "Start"
    is_open: bool = False
    about: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the form as a page gets it."""
        data = {name: getattr(self, name) for name in ("name", "title", "button", "about")}
        return data | {"open": self.is_open, "fields": [asdict(each) for each in self.fields]}

    def begin(self, values_given: Mapping[str, Any]) -> dict[str, Any]:
        """Call `start` with what a page sent; return `{"run": …}`, or raise FormError."""
        field_name: str | None = None
        try:
            if unknown := values_given.keys() - {each.name for each in self.fields}:
                raise ConfigError(f"the form has no field {min(unknown)!r:.80}")
            values = {}
            for each in self.fields:
                field_name = each.name
                values[field_name] = each.read(values_given.get(field_name, each.value))
            field_name = None
            return {"run": self.start(**values)}
        except WouldEnd:
            raise
        except MoothallError as error:
            at = field_name or error.argument
            at = at if any(each.name == at for each in self.fields) else None
            raise FormError(self._with_labels(str(error)), argument=at) from error

    def _with_labels(self, text: str) -> str:
        """Return an error with the form's labels in the place of a command's options."""
        text = text.replace("give --", "fill in --")
        for each in self.fields:
            option = rf"(?<!\S)--{each.name.replace('_', '-')}(?: [A-Z]+)?(?![\w-])"
            text = re.sub(option, f"“{each.label.partition(':')[0]}”", text)
        return text


class Tab:
    """One tab of the page. Ours and those of other packages derive from it.

    The entry point of a package's tab, in the group `moothall.tabs`, is called with the studio and
    returns the tab: so its class can be it, whose `__init__` takes the studio.

    Attributes:
        name: its part of the address: small letters, digits, `-` and `_`
        title: what stands on it
        script: a JavaScript module that exports `mount(root)`, which fills the tab; it imports what
            it needs of the page from `../build.js`
    """

    name: str
    title: str
    script: Path | None = None

    def routes(self, router: Any) -> None:
        """Add the tab's routes, below `/studio/NAME`, to a router of FastAPI."""

    def forms(self) -> Sequence[PageForm]:
        """Return the tab's forms as they are now; a page asks for them when it loads."""
        return ()

    def is_shown(self) -> bool:
        """Return whether the page has the tab now; its address opens it all the same."""
        return True

    def close(self) -> None:
        """End what the tab has begun: the studio is closed."""

    @property
    def script_address(self) -> str | None:
        """Where a page loads the script, from the folder of ours; None without one."""
        if self.script is None:
            return None
        is_ours = self.script.parent == STATIC
        return f"./{self.script.name}" if is_ours else f"./tabs/{self.name}.js"


def checked_tab(tab: object) -> Tab:
    """Return a tab; ConfigError if a page cannot have it."""
    if not isinstance(tab, Tab):
        raise ConfigError(f"a tab must be a moothall.studio.Tab, got {tab!r:.80}")
    name, title = getattr(tab, "name", None), getattr(tab, "title", None)
    if not isinstance(name, str) or not _TAB_NAME.fullmatch(name) or name in _RESERVED_NAMES:
        raise ConfigError(
            f"a tab's name must be small letters, digits, - and _, at most 40, and none of "
            f"{', '.join(sorted(_RESERVED_NAMES))}, got {name!r:.80}"
        )
    if not isinstance(title, str) or not title.strip():
        raise ConfigError(f"the title of tab {name!r} must be a text, got {title!r:.80}")
    if tab.script is not None and not (isinstance(tab.script, Path) and tab.script.is_file()):
        raise ConfigError(f"the script of tab {name!r} must be a file's Path, got {tab.script!r}")
    return tab


def limit_fields() -> list[Field]:
    """Return fields for a run's limits, which an order takes by their names."""
    return [
        Field(name, f"{_limit_label(each)} at most", _number_kind(each), hint="no limit", more=True)
        for name, each in RUN_LIMITS.items()
    ]


def _number_kind(limit: Limit) -> Literal["whole", "number"]:
    return "whole" if limit.is_whole_number else "number"


def _limit_label(limit: Limit) -> str:
    return f"{limit.unit[0].upper()}{limit.unit[1:]}"


def _limits_by_stop() -> dict[str, dict[str, str]]:
    """Return what a run needs more of by the reason of its end, with its words."""
    more = {"max_iterations": {"iterations": "Iterations in all"}}
    for name, limit in RUN_LIMITS.items():
        more.setdefault(limit.stop_reason, {})[name] = f"{_limit_label(limit)} {limit.limit_scope}"
    return more


def _decisions() -> list[dict[str, Any]]:
    """Return what a reviewer may decide, as a page offers and shows it."""
    return [
        {"action": action.value, **meaning._asdict()}
        for action, meaning in HumanDecision.choices.items()
    ]


def _doubt_decisions() -> list[dict[str, Any]]:
    """Return what may be decided about a call in doubt, as a page offers and explains it."""
    return [
        {"word": word, "label": kind.label, "meaning": kind.meaning, "value": kind.value_name}
        for word, kind in Doubt.decisions.items()
    ]


def non_empty_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an order that a form sets: not blank, and no limit of 0."""
    values: Any = {
        name: each.strip() if isinstance(each, str) else each for name, each in fields.items()
    }
    for name in {"root", "folder"} & values.keys():
        values[name] = os.path.expanduser(values[name])
    return {name: each for name, each in values.items() if each or each is False}


def read_html(name: str) -> str:
    """Return a page of ours, with `{…}` where it is filled in."""
    return (STATIC.parent / "html" / f"{name}.html").read_text(encoding="utf-8")


def style_hash(page: str) -> str:
    """Return the source by which a policy permits the style sheet within a page."""
    style = _STYLE_SHEET.search(page)
    return f"'sha256-{b64encode(sha256((style[1] if style else '').encode()).digest()).decode()}'"


# A report runs no scripts, whatever is in it; its style sheet is known by its hash.
_REPORT_POLICY: Final = (
    "default-src 'none'; img-src data:; style-src {style}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox{sandbox}"
)
_STYLE_SHEET: Final = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def report_page(html: str, sandbox: str = "") -> Response:
    """Return the HTML of a report as a page in a sandbox, with what the sandbox permits."""
    from fastapi import Response

    policy = _REPORT_POLICY.format(style=style_hash(html), sandbox=sandbox)
    headers = {"Content-Security-Policy": policy}
    return Response(html, media_type="text/html", headers=headers)


def attachment(data: bytes | str, name: str, ending: str, media_type: str) -> Response:
    """Return data as a file that a browser keeps, by a name that every system has room for."""
    from fastapi import Response

    name = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:80].strip("-") or "file"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(data, media_type=media_type, headers=headers)


def shell_html(tabs: Iterable[Tab], first_tab: str, base: str, faults: Sequence[str] = ()) -> str:
    """Return the empty page, which its scripts fill; all addresses begin with `base`."""
    tab_rows = [
        {"name": t.name, "title": t.title, "script": t.script_address, "shown": t.is_shown()}
        for t in tabs
    ]
    data: dict[str, Any] = {"opens": first_tab, "tabs": tab_rows, "faults": [*faults]}
    bounds = [
        each.least_choice for each in Journal.filters.values() if each.least_choice is not None
    ]
    data |= {
        "ended": sorted(REASONS.final),
        "kinds": sorted(Extension.all_of("moothall.kinds")),
        "bounds": [each._asdict() for each in bounds],
        "limits": [
            {"name": each.name, "label": _limit_label(each), "order": key}
            for key, each in RUN_LIMITS.items()
        ],
        "more": _limits_by_stop(),
        "decisions": _decisions(),
        "doubts": _doubt_decisions(),
        "docs": _docs_address(),
    }
    base = escape(base)
    return read_html("studio").format(
        base=base, at=f"{base}studio/static", told=escape(json.dumps(data))
    )


def _docs_address() -> str | None:
    """Return the address of the documentation, if the installed package names one."""
    with suppress(metadata.PackageNotFoundError):
        addresses = metadata.metadata("moothall").get_all("Project-URL") or ()
        return dict(each.split(", ", 1) for each in addresses).get("Documentation")
    return None

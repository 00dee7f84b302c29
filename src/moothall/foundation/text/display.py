"""What a notebook shows of an object."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from moothall.foundation.text.words import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MAX_ROWS: Final = 100
"""How many rows of a table are shown."""
_CELL_CHARS: Final = 500
"""How many characters of a cell are shown."""
_TEXT_CHARS: Final = 50_000
"""How many characters of a text are shown."""
_LEFT_ALIGNED: Final = ' style="text-align: left"'
_WEB_LINK: Final = re.compile(r"https?://", re.IGNORECASE)


class SafeHTML:
    """HTML in which all text is escaped, without scripts, such as a notebook shows."""

    @staticmethod
    def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], count: int | None = None) -> str:
        """Return a table of the first 100 rows, in which None is an empty cell.

        With `count`, how many rows there are, it says how many are left out.
        """
        displayed = list(islice(rows, _MAX_ROWS))
        head = "".join(f"<th{_LEFT_ALIGNED}>{escape(each)}</th>" for each in heads)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in displayed)
        hidden_count = (count or 0) - len(displayed)
        note = SafeHTML.small(f"{hidden_count:,} more") if hidden_count > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    @staticmethod
    def facts(values: Mapping[str, Any]) -> str:
        """Return a table with a row for each name and its value; None leaves the row out."""
        rows = ((name, value) for name, value in values.items() if value is not None)
        body = "".join(
            f"<tr><th{_LEFT_ALIGNED}>{escape(name)}</th>{_cell(value)}</tr>" for name, value in rows
        )
        return f"<table><tbody>{body}</tbody></table>"

    @staticmethod
    def text(content: str) -> str:
        """Return the first 50,000 characters of a text, as Markdown if markdown-it-py is there."""
        content = _clean(cut(content, _TEXT_CHARS))
        if find_spec("markdown_it") is None:
            return f'<pre style="white-space: pre-wrap">{escape(content)}</pre>'
        html: str = SafeHTML.markdown_parser().render(content)
        return f"<div>{html}</div>"

    @staticmethod
    def folded(summary: str, body: str) -> str:
        """Return HTML, `body`, that opens at a click on its summary."""
        return f"<details><summary>{escape(summary)}</summary>{body}</details>"

    @staticmethod
    def small(content: str) -> str:
        """Return a line in small print."""
        return f"<p><small>{escape(_clean(content))}</small></p>"

    @staticmethod
    def markdown_parser() -> MarkdownIt:
        """Return a parser of Markdown: HTML and images are text, links lead to http and https."""
        from markdown_it import MarkdownIt

        # Definitions of links are off, as each footnote would become one; images are off, too.
        parser = (
            MarkdownIt("commonmark", {"html": False})
            .enable("table")
            .disable(["reference", "image"])
        )
        parser.validateLink = lambda url: _WEB_LINK.match(url) is not None  # type: ignore[method-assign]
        return parser


def _cell_number() -> int | None:
    """Return the number of the notebook's cell that is being executed; None outside of IPython."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return None if shell is None else int(shell.execution_count)


class CellMark:
    """In which cell of a notebook a reply was printed: there it is not displayed once more."""

    __slots__ = ("_cell",)

    _cell: int

    def mark_printed(self) -> None:
        """Note that the cell which is being executed has printed it."""
        cell = _cell_number()
        if cell is not None:
            object.__setattr__(self, "_cell", cell)

    def _ipython_display_(self) -> None:
        if getattr(self, "_cell", None) != _cell_number():
            raise NotImplementedError  # IPython goes on to `_repr_html_`


def _cell(value: Any) -> str:
    content = _clean(cut("" if value is None else str(value), _CELL_CHARS))
    return f'<td style="text-align: left; white-space: pre-wrap">{escape(content)}</td>'


def _clean(content: str) -> str:
    """Replace by U+FFFD what does not print, such as what turns the direction of writing."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in content)

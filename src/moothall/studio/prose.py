"""Markdown as a tree of its elements, for a page that makes them itself: no HTML is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moothall.build import SafeHTML

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

MAX_CHARACTERS: Final = 20_000
"""A longer text is not read as Markdown."""
_MAX_BRACKETS: Final = 200
"""Nor is one with more opening brackets, each of which would be followed to the text's end."""
_TAG_NAMES: Final = {
    "hardbreak": "br",
    "softbreak": "br",
    "hr": "hr",
    "code_inline": "code",
    "fence": "pre",
    "code_block": "pre",
}

Node = Any
"""A text, or `[name, children]` of an element; a link is `["a", children, address]`."""


def prose(text: str) -> list[Node] | None:
    """Return Markdown as nodes; None where it is too long, or too nested, to be read as such.

    HTML and images are text; only links to http and https are links.
    """
    if len(text) > MAX_CHARACTERS or text.count("[") > _MAX_BRACKETS:
        return None
    return _nodes(SafeHTML.markdown_parser().parse(text))


def _nodes(tokens: Sequence[Token]) -> list[Node]:
    root: list[Node] = []
    open_children = [root]
    for token in tokens:
        if token.type == "inline":
            open_children[-1].extend(_nodes(token.children or ()))
        elif token.nesting == 1:
            node: list[Node] = [token.tag, []]
            if token.tag == "a":
                node.append(str(token.attrs.get("href", "")))
            if not token.hidden:  # the paragraph of a short list's item
                open_children[-1].append(node)
            open_children.append(open_children[-1] if token.hidden else node[1])
        elif token.nesting == -1:
            open_children.pop()
        elif (name := _TAG_NAMES.get(token.type)) is not None:
            open_children[-1].append([name, [token.content] if token.content else []])
        elif token.content:
            open_children[-1].append(token.content)
    return root

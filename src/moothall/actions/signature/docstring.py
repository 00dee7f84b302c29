"""The parts of a function's docstring: a description, its arguments, what it returns.

docstring_parser reads the styles (Google's, reST, NumPy's, Epydoc's); it is imported when a
docstring is first read, since most programs never need one.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from moothall.foundation.text import printable


@dataclass(frozen=True, slots=True)
class DocstringEntry:
    """The documentation of an argument or of the returned value: its type, as written, and text."""

    type_name: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring's parts; `description` is the short and the long description together."""

    description: str = ""
    args: dict[str, DocstringEntry] = field(default_factory=dict)
    returns: DocstringEntry | None = None


def read_docstring(text: str | None) -> Docstring:
    """Read a docstring of any style; if no style fits, the whole text is the description."""
    text = printable((text or "").strip())
    if not text:
        return Docstring()
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # a defect of the parser must not make an action unusable
        return Docstring(text)
    args: dict[str, DocstringEntry] = {}
    for param in parsed.params:
        entry = DocstringEntry(param.type_name, _unwrap_lines(param.description))
        for name in param.arg_name.split(","):  # NumPy's style describes several in one entry
            args.setdefault(name.strip().lstrip("*"), entry)
    returns = None
    if parsed.returns is not None:
        returns = _returns_entry(parsed.returns.type_name, parsed.returns.description)
    separator = "\n\n" if parsed.blank_after_short_description else "\n"
    parts = (parsed.short_description, parsed.long_description)
    return Docstring(separator.join(part for part in parts if part), args, returns)


def read_type(text: str | None) -> Any:
    """Return the annotation of a type written in a docstring, never evaluated; else Any."""
    if not text or len(text) > 200:
        return Any
    text = re.sub(r",\s*(optional|required|default\b.*)$", "", text.strip(" `"), flags=re.I)
    text = re.sub(r"\s+or\s+", " | ", text)
    try:
        return _annotation_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return Any


def _returns_entry(type_name: str | None, description: str | None) -> DocstringEntry:
    # Google's style has `type: text`, and a sentence with a colon looks the same.
    if type_name and " " in type_name and read_type(type_name) is Any:
        return DocstringEntry(None, _unwrap_lines(f"{type_name}: {description or ''}"))
    return DocstringEntry(type_name, _unwrap_lines(description))


def _unwrap_lines(text: str | None) -> str:
    """Join the lines of each paragraph; items of a list and indented lines stay on their own."""
    unwrapped = ""
    for line in (text or "").strip().splitlines():
        if not line.strip():
            unwrapped += "\n\n" if not unwrapped.endswith("\n\n") else ""
        elif not unwrapped or unwrapped.endswith("\n"):
            unwrapped += line.rstrip()
        elif re.match(r"\s+\S|[-*•] |\d+[.)] ", line):
            unwrapped += "\n" + line.rstrip()
        else:
            unwrapped += " " + line.strip()
    return unwrapped


_TYPES_BY_NAME: dict[str, Any] = {
    "str": str, "string": str, "text": str,
    "int": int, "integer": int,
    "float": float, "number": float, "double": float,
    "bool": bool, "boolean": bool,
    "list": list, "array": list, "sequence": list, "iterable": list,
    "dict": dict, "dictionary": dict, "mapping": dict,
    "tuple": tuple, "set": set, "frozenset": frozenset,
    "none": None, "nonetype": None, "null": None,
}  # fmt: skip


def _annotation_of(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _TYPES_BY_NAME.get(name.lower(), Any)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union(_annotation_of(left), _annotation_of(right))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            if name == "Literal":
                values = ast.literal_eval(inner)
                return Literal[values] if isinstance(values, str | int | tuple) else Any
            nodes = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            args = tuple(map(_annotation_of, nodes))
            if name in ("Optional", "Union"):
                return _union(*args, None) if name == "Optional" else _union(*args)
            base: Any = _TYPES_BY_NAME.get(name.lower(), Any)
            if base in (list, set, frozenset) or (base is dict and len(args) == 2):
                return base[args if base is dict else args[0]]
            return base
    return Any


def _union(*members: Any) -> Any:
    # A union with an unknown member is unknown.
    return Any if Any in members else Union[members]  # noqa: UP007

"""A question of a server (an elicitation), asked of the person behind an approver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.signature.schema import SchemaValidator, WrongSchema
from moothall.foundation.text import one_line
from moothall.serving.mcp.listing import checked_schema

if TYPE_CHECKING:
    import mcp_types

_TRIES: Final = 3
_REFUSES: Final = "/decline"
_YES: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


async def answered(
    server: str, params: Any, ask: Callable[[str], Awaitable[str]]
) -> mcp_types.ElicitResult:
    """Ask a person for the values of a form, one after the other, and return the form.

    Args:
        server: the server's name
        params: what it asks, with the schema of the form
        ask: asks the person one question
    """
    from mcp_types import ElicitResult

    schema = getattr(params, "requested_schema", None)
    if params.mode != "form" or schema is None:  # it would open a page of the server's
        return ElicitResult(action="decline")
    schema = schema if isinstance(schema, dict) else schema.model_dump(exclude_none=True)
    schema = checked_schema(schema)
    fields = schema.get("properties") or {}
    try:
        checks = SchemaValidator(schema)
        asked = {
            name: SchemaValidator(about if isinstance(about, dict) else {})
            for name, about in list(fields.items())[:20]
        }
    except WrongSchema:
        return ElicitResult(action="decline")
    said = f"the MCP server {server!r} asks: {one_line(params.message, 1000)}"
    if not fields:
        line = await ask(f"{said} (yes or no)")
        agreed = _YES.get(line.strip().lower()) is True
        return (
            ElicitResult(action="accept", content={}) if agreed else ElicitResult(action="decline")
        )
    content: dict[str, Any] = {}
    for name, check in asked.items():
        needed = name in (schema.get("required") or ())
        found = await _field(said, name, check, needed, ask)
        if found is None:
            return ElicitResult(action="decline")
        content |= found
    if not checks.holds(content):
        return ElicitResult(action="cancel")
    return ElicitResult(action="accept", content=content)


async def _field(
    said: str,
    name: str,
    check: SchemaValidator,
    needed: bool,
    ask: Callable[[str], Awaitable[str]],
) -> dict[str, Any] | None:
    """Return the value of a field, nothing if it is left empty, or None if the person declines."""
    about = check.schema
    choices = about.get("enum") or [
        each.get("const") for each in about.get("oneOf") or () if isinstance(each, dict)
    ]
    kind = ", ".join(map(str, choices[:50])) if choices else str(about.get("type", "string"))
    label = one_line(str(about.get("description") or about.get("title") or ""), 300)
    shown = f"{one_line(name, 100)}{f', {label}' if label else ''} ({one_line(kind, 500)})"
    has_default = "default" in about and check.holds(about["default"])
    empty = "" if needed else "; empty to leave it out"
    if has_default:
        empty = f"; empty for {one_line(str(about['default']), 100)!r}"
    rest = f"{empty}; {_REFUSES} to refuse"
    question = f"{said} {shown}{rest}"
    fault = ""
    for _ in range(_TRIES):
        line = (await ask(f"{fault}{question}")).strip()
        if line == _REFUSES:
            return None
        if not line and has_default:
            return {name: about["default"]}
        if not line and not needed:
            return {}
        value = _read(line, about.get("type"))
        if check.holds(value):
            return {name: value}
        fault = f"{one_line(line, 80)!r} is not valid. "
    return None


def _read(line: str, kind: Any) -> Any:
    """Return a person's line as a value of a type; the line itself if it does not fit."""
    try:
        if kind == "integer":
            return int(line)
        if kind == "number":
            return float(line)
    except ValueError:
        return line
    if kind == "boolean":
        return _YES.get(line.lower(), line)
    if kind == "array":
        return [each.strip() for each in line.split(",") if each.strip()]
    return line

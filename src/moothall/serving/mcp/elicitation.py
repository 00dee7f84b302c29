"""A question of a server (an elicitation), asked of the person behind an approver.

It is a form, or an address that the person is to open, such as to log in.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from moothall.build import SchemaValidator, one_line
from moothall.serving.mcp.choices import YES_OR_NO, Choices
from moothall.serving.mcp.listing import checked_schema, visible_text

if TYPE_CHECKING:
    import mcp_types
    from mcp import MCPError

_MAX_TRIES: Final = 3
_MAX_ADDRESSES: Final = 5
_ADDRESS: Final = re.compile(r"[!-\[\]-~]{1,8192}")
"""What an address is made of: ASCII, of which browsers read `\\` as they like."""
_DECLINE_COMMAND: Final = "/decline"
_MAX_CHOICES_CHARS: Final = 2000


async def answer_of_person(
    server: str, params: Any, ask: Callable[[str], Awaitable[str]]
) -> mcp_types.ElicitResult:
    """Ask a person for the values of a form, one after the other, or to open an address.

    Args:
        server: the server's name
        params: what it asks, with the schema of the form or the address
        ask: asks the person one question
    """
    from mcp_types import ElicitResult

    question = f"the MCP server {server!r} asks: {one_line(params.message, 1000)}"
    if params.mode == "url":
        host, fault = _checked_host(params.url)
        line = ""
        if not fault:
            hint = "answer yes once you are done there, anything else refuses"
            line = await ask(f"{question} (open this address of {host}; {hint}): {params.url}")
        is_agreed = YES_OR_NO.get(line.strip().lower()) is True
        return ElicitResult(action="accept" if is_agreed else "decline")
    schema = getattr(params, "requested_schema", None)
    if params.mode != "form" or schema is None:
        return ElicitResult(action="decline")
    schema = schema if isinstance(schema, dict) else schema.model_dump(exclude_none=True)
    schema = checked_schema(schema)
    fields = schema.get("properties") or {}
    try:
        validator = SchemaValidator(schema)
        validators = {
            name: SchemaValidator(field if isinstance(field, dict) else {})
            for name, field in list(fields.items())[:20]
        }
    except ValueError:
        return ElicitResult(action="decline")
    if not fields:
        line = await ask(f"{question} (yes or no)")
        is_agreed = YES_OR_NO.get(line.strip().lower()) is True
        return (
            ElicitResult(action="accept", content={})
            if is_agreed
            else ElicitResult(action="decline")
        )
    content: dict[str, Any] = {}
    for name, field_validator in validators.items():
        is_required = name in (schema.get("required") or ())
        values = await _ask_field(question, name, field_validator, is_required, ask)
        if values is None:
            return ElicitResult(action="decline")
        content |= values
    if not validator.holds(content):
        return ElicitResult(action="cancel")
    return ElicitResult(action="accept", content=content)


def addresses_in(error: MCPError) -> list[mcp_types.ElicitRequestURLParams]:
    """Return the addresses that are to be opened before a call, as its error says."""
    from mcp_types import URL_ELICITATION_REQUIRED, ElicitRequestURLParams

    data = error.data if error.code == URL_ELICITATION_REQUIRED else None
    elicitations = data.get("elicitations") if isinstance(data, dict) else None
    return [
        ElicitRequestURLParams(message=str(each.get("message") or ""), url=each["url"])
        for each in (elicitations if isinstance(elicitations, list) else ())[:_MAX_ADDRESSES]
        if isinstance(each, dict) and isinstance(each.get("url"), str)
    ]


def address_in_words(params: mcp_types.ElicitRequestURLParams) -> str:
    """Return what a server wants opened, in words; of a wrong address, why it is refused."""
    note = f" ({message})" if (message := one_line(params.message, 300)) else ""
    _, fault = _checked_host(params.url)
    return f"{params.url[:200]!a}, which is refused: {fault}" if fault else params.url + note


def _checked_host(url: str) -> tuple[str, str]:
    """Return the host of an address that a person may open, or why no person is asked to."""
    try:
        parts = urlsplit(url)
        host, user, _ = parts.hostname or "", parts.username, parts.port
    except ValueError as error:
        return "", str(error)
    if parts.scheme not in ("http", "https") or not host:
        return "", "an address must begin with https:// or http://, and name a host"
    if user is not None:
        return "", "it has a user before its host, which looks like another host"
    return host, "" if _ADDRESS.fullmatch(url) else "it has characters that no address has"


async def _ask_field(
    message: str,
    name: str,
    validator: SchemaValidator,
    is_required: bool,
    ask: Callable[[str], Awaitable[str]],
) -> dict[str, Any] | None:
    """Return the value of a field, nothing if it is left empty, or None if the person declines."""
    schema = validator.schema
    is_list = schema.get("type") == "array"
    value_schema = schema.get("items") if is_list else schema
    choices = Choices.from_schema(value_schema if isinstance(value_schema, dict) else {})
    has_default = "default" in schema and validator.holds(schema["default"])
    empty_hint = "" if is_required else "; empty to leave it out"
    if has_default:
        empty_hint = f"; empty for {one_line(choices.in_words(schema['default']), 100)!r}"
    hints = f"{empty_hint}; {_DECLINE_COMMAND} to refuse"
    question = f"{message} {_field_in_words(name, schema, choices)}{hints}"
    fault = ""
    for _ in range(_MAX_TRIES):
        line = (await ask(f"{fault}{question}")).strip()
        if line == _DECLINE_COMMAND:
            return None
        if not line and has_default:
            return {name: schema["default"]}
        if not line and not is_required:
            return {}
        value = choices.values_of(line) if is_list else choices.value_of(line)
        if validator.holds(value):
            return {name: value}
        fault = f"{one_line(line, 80)!r} is not valid. "
    return None


def _field_in_words(name: str, schema: dict[str, Any], choices: Choices) -> str:
    """Return what a person is told of a field: its name, what it is, and what it may have."""
    title, description = (str(schema.get(each) or "") for each in ("title", "description"))
    if title.casefold().replace(" ", "_") == name.casefold():
        title = ""
    label = ", ".join(filter(None, (name, title, description)))
    kind = str(choices) or str(schema.get("type", "string"))
    if schema.get("type") == "array":
        words = {"minItems": "at least", "maxItems": "at most"}
        bounds = [f"{words[key]} {schema[key]}" for key in words if type(schema.get(key)) is int]
        count = f"{' and '.join(bounds) or 'any'} of" if choices.values else " and ".join(bounds)
        kind = f"{count} {choices if choices.values else 'values'}, separated by commas".lstrip()
    label, kind = visible_text(label), visible_text(kind)
    return f"{one_line(label, 400)} ({one_line(kind, _MAX_CHOICES_CHARS)})"

"""What a server offers: the definitions of its tools, and its resources and prompts."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moothall import MCPServerError
from moothall.build import SchemaValidator, one_line

if TYPE_CHECKING:
    import mcp

RESOURCE_LIST: Final = "resources/list"
PROMPT_LIST: Final = "prompts/list"
"""The names by which a lock file has the lists of resources and prompts."""
logger: logging.Logger = logging.getLogger("moothall.serving.mcp")

MAX_TOOLS: Final = 1000
"""How many tools, resources or prompts of a server are used."""
OUTPUT_SCHEMA: Final = "moothall/outputSchema"
"""Where in a tool's `_meta` its output schema is kept from the SDK, which would check by it."""
_MAX_PAGES: Final = 100
_MAX_FAULTS: Final = 100
_MAX_SCHEMA_S: Final = 2.0
"""How many seconds of the processor the schemas of a server's tools may take."""
_HASHED_KEYS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a tool, as its server sends it.

    Attributes:
        data: its name, title, description, schemas and annotations, as JSON
        sha256: the hash of all that
        fault: why its schema cannot be used; empty if it can
        for_models: whether its server means it for models, and not only for pages of MCP Apps
    """

    data: dict[str, Any]
    sha256: str
    fault: str = ""
    for_models: bool = True

    @classmethod
    def of(cls, data: dict[str, Any]) -> Definition:
        """Return the definition in a tool of a server's list."""
        hashed = {key: data[key] for key in _HASHED_KEYS if data.get(key) is not None}
        text = json.dumps(hashed, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        return cls(
            hashed, sha256, _definition_fault(hashed, len(text)), _is_for_models(data.get("_meta"))
        )

    @property
    def name(self) -> str:
        """The tool's name."""
        name: str = self.data["name"]
        return name

    @property
    def description(self) -> str:
        """What the server says that the tool does."""
        text: str = self.data.get("description") or self.data.get("title") or ""
        return text

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of its arguments."""
        schema: dict[str, Any] = self.data["inputSchema"]
        return schema


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """What a server offers.

    Attributes:
        tools: the definitions of its tools, by name
        resources: the addresses of its resources, or the templates of addresses
        prompts: the names of its prompts, each with the names of its arguments
        server: its name and version, as it says
        revision: the protocol's revision that it speaks
        instructions: what it says about its use
    """

    tools: dict[str, Definition] = field(default_factory=dict)
    resources: tuple[str, ...] | None = None
    prompts: dict[str, tuple[str, ...]] | None = None
    server: str = ""
    revision: str = ""
    instructions: str = ""

    @property
    def lock_entries(self) -> dict[str, Definition]:
        """What a lock file keeps: the definitions, and the lists of resources and prompts."""
        lists: dict[str, Any] = {
            RESOURCE_LIST: None if self.resources is None else sorted(self.resources),
            PROMPT_LIST: self.prompts,
        }
        definitions = {
            name: Definition.of({"name": name, "description": json.dumps(each, sort_keys=True)})
            for name, each in lists.items()
            if each
        }
        return {**self.tools, **definitions}

    @property
    def lock_hash(self) -> str:
        """A hash of what a lock file keeps, to which what a person accepts is bound."""
        hashes = sorted(each.sha256 for each in self.lock_entries.values())
        return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _is_for_models(meta: Any) -> bool:
    ui_fields = meta.get("ui") if isinstance(meta, dict) else None
    audiences = ui_fields.get("visibility") if isinstance(ui_fields, dict) else None
    if isinstance(meta, dict) and meta.get("openai/visibility") == "private":
        return False
    return not isinstance(audiences, list | str) or "model" in audiences


async def read_offer(client: mcp.Client, name: str, faults: set[str]) -> ServerOffer:
    """Read what a server offers; a fault of its resources or prompts leaves the rest.

    Args:
        client: its client
        name: what the log calls it
        faults: those of its lists that the log has, to which new ones are added

    Raises:
        MCPServerError: its list of tools does not end
    """
    capabilities = client.server_capabilities

    def warn(fault: str) -> None:
        if fault not in faults and len(faults) < _MAX_FAULTS:
            faults.add(fault)
            logger.warning("%s: %s", name, fault)

    tools: dict[str, Definition] = {}
    if capabilities.tools is not None:
        listed_tools = await _all_items(client.list_tools, "tools", warn)
        start = time.thread_time()
        for tool in listed_tools:
            has_odd_name = not 0 < len(tool.name) <= 255 or not tool.name.isprintable()
            if has_odd_name or tool.name in (RESOURCE_LIST, PROMPT_LIST):
                logger.warning("%s has a tool with an odd name, which is left out", name)
                continue
            data = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            if (output_schema := (data.get("_meta") or {}).get(OUTPUT_SCHEMA)) is not None:
                data["outputSchema"] = output_schema
            definition = Definition.of(data)
            if time.thread_time() - start > _MAX_SCHEMA_S:
                raise MCPServerError("the schemas of its tools take too long to be measured")
            if tools.setdefault(definition.name, definition) is not definition:
                logger.warning("%s has two tools %.80r; the first is used", name, definition.name)
            elif definition.fault:
                text = "%s: its tool %.80r cannot be called: %s"
                logger.warning(text, name, definition.name, definition.fault)
    resources = prompts = None
    if (
        capabilities.resources is not None
        and (listed := await _optional_items(client.list_resources, "resources", warn)) is not None
    ):
        list_templates = client.list_resource_templates
        templates = await _optional_items(list_templates, "resource_templates", warn) or ()
        resources = (*(str(each.uri) for each in listed), *(t.uri_template for t in templates))
    if (
        capabilities.prompts is not None
        and (listed := await _optional_items(client.list_prompts, "prompts", warn)) is not None
    ):
        prompts = {each.name: tuple(a.name for a in each.arguments or ()) for each in listed}
    info = client.server_info
    return ServerOffer(
        tools,
        resources,
        prompts,
        "" if info is None else one_line(f"{info.name} {info.version}", 200),
        client.protocol_version,
        client.instructions or "",
    )


async def _optional_items(
    list_page: Any, field_name: str, warn: Callable[[str], None]
) -> list[Any] | None:
    """Return the items of a list that a server may lack; None if it cannot be read."""
    import anyio
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND
    from pydantic import ValidationError

    try:
        # A list that does not come leaves time for the others.
        seconds_left = anyio.current_effective_deadline() - anyio.current_time()
        with anyio.fail_after(seconds_left / 2):
            return await _all_items(list_page, field_name, warn)
    except (MCPError, MCPServerError, ValidationError, TimeoutError) as error:
        code = getattr(error, "code", None)
        if code == CONNECTION_CLOSED:
            raise
        if code == METHOD_NOT_FOUND:  # some servers only say that they have such lists
            return []
        reason = one_line(str(error), 200) or "it does not come"
        if isinstance(error, ValidationError):
            reason = "it is not as the protocol has it"
        warn(f"its list of {_in_words(field_name)} is left out, since it cannot be read: {reason}")
        return None


async def _all_items(list_page: Any, field_name: str, warn: Callable[[str], None]) -> list[Any]:
    """Return the items of all pages of a list, each once."""
    items: dict[str, Any] = {}
    cursor, cursors, label = None, set[str](), _in_words(field_name)
    for _ in range(_MAX_PAGES):
        page = await list_page(cursor=cursor)
        count, listed = len(items), getattr(page, field_name)
        items |= {each.model_dump_json(): each for each in listed}
        if len(items) > MAX_TOOLS:
            raise MCPServerError(f"it lists more than {MAX_TOOLS:,} {label}")
        cursor = page.next_cursor
        if cursor is None:
            return [*items.values()]
        if cursor in cursors or (listed and len(items) == count):
            warn(f"its list of {label} goes on with a page that it has had: it ends there")
            return [*items.values()]
        cursors.add(cursor)
    raise MCPServerError(f"its list of {label} has more than {_MAX_PAGES} pages")


def _in_words(field_name: str) -> str:
    return field_name.replace("_", " ")


# -- schemas that a server sends -------------------------------------------------------------------


def _definition_fault(data: dict[str, Any], size: int) -> str:
    """Return why a definition cannot be used; empty if it can."""
    if size > SchemaValidator.max_chars:
        return f"its definition has more than {SchemaValidator.max_chars:,} characters"
    for key in ("inputSchema", "outputSchema"):
        schema = data.get(key)
        if schema is None:
            continue
        if not isinstance(schema, dict):
            return f"its {key} must be an object"
        try:
            SchemaValidator(checked_schema(schema))
        except ValueError as error:
            return f"its {key} is no JSON schema that can be used: {one_line(str(error), 200)}"
        if key == "inputSchema" and _has_hidden_chars(schema):
            return "a name or a value in its inputSchema has characters that nobody sees"
        if key == "inputSchema" and schema.get("type", "object") != "object":
            return f'its {key} must be of type "object"'
    return ""


def checked_schema(schema: Any) -> Any:
    """Return a schema as it is checked here: without expressions, whose dialect is the server's."""
    return SchemaValidator.without_expressions(schema)


_EXACT_KEYWORDS: Final = ("const", "enum", "default", "required", "$ref", "$dynamicRef")
"""Keywords whose texts a call must state to the letter, or that name other parts."""


def visible_schema(schema: Any) -> Any:
    """Return a schema without characters that nobody sees."""
    if isinstance(schema, list):
        return [visible_schema(each) for each in schema]
    if isinstance(schema, dict):
        return {visible_text(key): visible_schema(each) for key, each in schema.items()}
    return visible_text(schema) if isinstance(schema, str) else schema


def _has_hidden_chars(schema: Any, is_exact: bool = False) -> bool:
    """Whether a name or a value that a call must state has characters that nobody sees."""
    if isinstance(schema, list):
        return any(_has_hidden_chars(each, is_exact) for each in schema)
    if isinstance(schema, dict):
        return any(
            visible_text(key) != key or _has_hidden_chars(each, is_exact or key in _EXACT_KEYWORDS)
            for key, each in schema.items()
        )
    return is_exact and isinstance(schema, str) and visible_text(schema) != schema


def visible_text(text: str) -> str:
    """Return a text without characters that nobody sees, which could tell a model something."""
    if text.isascii():
        return "".join(each for each in text if each >= " " or each in "\n\t")
    characters, last_char = [], ""
    for each in text:
        # One that shapes the letter or the picture before it is seen.
        if not _is_hidden_char(each) or (each in _SHAPING_CHARS and not last_char.isascii()):
            characters.append(each)
            last_char = "" if each in _SHAPING_CHARS else each
        else:
            last_char = ""
    return "".join(characters)


def _is_hidden_char(char: str) -> bool:
    if char in "\n\t":
        return False
    return unicodedata.category(char) in _HIDDEN_CATEGORIES or any(
        a <= char <= b for a, b in _BLANK_RANGES
    )


_HIDDEN_CATEGORIES: Final = ("Cc", "Cf", "Cn", "Co", "Cs")
_SHAPING_CHARS: Final = "\u200c\u200d\ufe0e\ufe0f"
_BLANK_RANGES: Final = (
    *(("\u034f", "\u034f"), ("\u115f", "\u1160"), ("\u17b4", "\u17b5"), ("\u180b", "\u180f")),
    *(("\u2800", "\u2800"), ("\u3164", "\u3164"), ("\ufe00", "\ufe0f"), ("\uffa0", "\uffa0")),
    ("\U000e0100", "\U000e01ef"),
)
"""Letters and marks that Unicode has fonts ignore, or leave blank."""

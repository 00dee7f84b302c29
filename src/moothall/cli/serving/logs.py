"""What `moothall serve` logs to standard error, and in which form."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click

from moothall.build import escaped
from moothall.cli.option_types import OneOf

_STANDARD_FIELDS: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_META_KEY: Final = f"{__name__}.options"


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a command logs; `log_to_stderr` reads them."""

    def note_option(context: click.Context, option: click.Parameter, value: str) -> None:
        context.meta.setdefault(_META_KEY, {})[option.name] = value

    settings: dict[str, Any] = {
        "show_default": True,
        "expose_value": False,
        "callback": note_option,
    }
    level = click.option(
        "--log-level",
        metavar="LEVEL",
        envvar="MOOTHALL_LOG_LEVEL",
        type=OneOf(("debug", "info", "warning", "error")),
        default="info",
        help="Log from this level on; debug adds tracebacks (MOOTHALL_LOG_LEVEL).",
        **settings,
    )
    form = click.option(
        "--log-format",
        metavar="FORM",
        envvar="MOOTHALL_LOG_FORMAT",
        type=OneOf(("text", "json")),
        default="text",
        help="Log lines of text, or of JSON (MOOTHALL_LOG_FORMAT).",
        **settings,
    )
    return level(form(function))


def log_to_stderr() -> None:
    """Log the connection's changes and all failures to standard error."""
    options = click.get_current_context().meta[_META_KEY]
    logger = logging.getLogger("moothall")
    handler = logging.StreamHandler()
    if options["log_format"] == "json":
        handler.setFormatter(_JSONFormatter())
    else:
        handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(options["log_level"].upper())
    logger.propagate = False


class _LineFormatter(logging.Formatter):
    """Formats lines without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(escaped(line) for line in super().format(record).split("\n"))


class _JSONFormatter(logging.Formatter):
    """Formats a record as a line of JSON, with what its `extra=` has."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created)
            .astimezone()
            .isoformat("T", "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        extra = {
            name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS
        }
        return json.dumps(extra | fields, default=str)

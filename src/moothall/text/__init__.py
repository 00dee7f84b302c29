"""Text for people: lines for a terminal, errors and logs, and what a notebook shows."""

from moothall.text.lazily import homes_of, lazily
from moothall.text.words import (
    counted,
    cut,
    error_message,
    error_text,
    escaped,
    escaped_json,
    excerpt,
    json_type,
    log_failure,
    marked,
    nearest,
    one_line,
    printable,
    render_path,
    shorten,
    shown_lines,
)

__all__ = [
    "counted",
    "cut",
    "error_message",
    "error_text",
    "escaped",
    "escaped_json",
    "excerpt",
    "homes_of",
    "json_type",
    "lazily",
    "log_failure",
    "marked",
    "nearest",
    "one_line",
    "printable",
    "render_path",
    "shorten",
    "shown_lines",
]

"""The question to a person about a value from outside."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import name as name_of

from moothall.actions.provenance.origin import Origin
from moothall.foundation.text import cut, escaped


def foreign_letters(value: str) -> str:
    """Return the letters of a value from another alphabet than the rest; empty for none."""
    foreign = []
    for word in value.split():
        if any(each.isascii() and each.isalpha() for each in word):
            foreign += [each for each in word if not each.isascii()]
    names = [name_of(each, f"U+{ord(each):04X}") for each in dict.fromkeys(foreign)]
    foreign_names = [each for each in names if not each.startswith("LATIN")]
    return ", ".join(foreign_names[:3])


def question_on(
    parameter: str, value: str, origin: Origin, sources: Sequence[str], is_part: bool = False
) -> str:
    """Return the question to a person about a guarded value, or about one in a text (`is_part`)."""
    subject = f"`{parameter}` {'has' if is_part else '='} {escaped(cut(value, 200))}"
    if foreign := foreign_letters(value):
        subject += f" (written with {foreign})"
    if origin.source:
        place = escaped(cut(origin.source, 120)) + (f", line {origin.line}" if origin.line else "")
        passage = f': "{escaped(origin.passage)}"' if origin.passage else ""
        verb = ", which was" if is_part else " was"
        return f"{subject}{verb} read in {place}; you never named it{passage}"
    sources_text = ", ".join(escaped(cut(each, 80)) for each in sources[:3])
    if len(sources) > 3:
        sources_text += f" and {len(sources) - 3} more"
    verb = ", which is" if is_part else " is"
    return (
        f"{subject}{verb} in none of your texts and cannot be traced, after {sources_text} was read"
    )

"""The parts of an answer that goes back to its provider, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def in_order(
    kept: Iterable[Mapping[str, Any]],
    said: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    text_of: Callable[[Mapping[str, Any]], str | None],
) -> list[dict[str, Any]]:
    """Return the parts of an answer in their order.

    Args:
        kept: what the provider gave, with each call as its place, which has a type alone
        said: the text of the answer, as it is now
        calls: the calls of the answer, as they are now
        text_of: returns the text of a part; None for any other part
    """
    texts = [text_of(each) for each in kept]
    as_given = "".join(filter(None, texts)) == "".join(text_of(each) or "" for each in said)
    said, calls = [] if as_given and any(texts) else said, list(calls)
    parts: list[dict[str, Any]] = []
    for each, text in zip(kept, texts, strict=True):
        if len(each) == 1:
            parts += calls[:1]
            del calls[:1]
        elif text is None or as_given:
            parts.append(dict(each))
        else:  # the text was changed since
            parts += said
            said = []
    return [*parts, *said, *calls]

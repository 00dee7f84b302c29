"""Two runs compared by their manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from civitas.text import one_line

_WORDS: Final = {"settings": "setting ", "versions": "version of ", "sha256": "sha256 of "}


def compare(manifest: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What differs between two runs of `civitas simulate --out`, in words.

    Args:
        manifest: what a `manifest.json` has
        other: that of the other run

    Returns:
        a line for each setting, version and result that differs; a result that is deterministic
        and differs although settings and versions agree is called so
    """
    one, two = _parts(manifest), _parts(other)
    keys = [key for key in dict.fromkeys((*one, *two)) if one.get(key) != two.get(key)]
    explained = any(group in ("settings", "versions") for group, _ in keys)
    lines = []
    for group, name in keys:
        strange = not explained and name in manifest.get("deterministic", ())
        note = " (although settings and versions agree)" if strange else ""
        values = (one_line(str(each.get((group, name))), 100) for each in (one, two))
        lines.append(f"{_WORDS.get(group, '')}{name}: {' and '.join(values)}{note}")
    return lines


def _parts(manifest: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Its values by group and name; a hash that is among the settings too once."""
    parts: dict[tuple[str, str], Any] = {}
    for name, value in manifest.items():
        if isinstance(value, Mapping):
            parts |= {(name, each): value[each] for each in value if each not in manifest}
        elif name not in ("deterministic", "not_deterministic"):
            parts["", name] = value
    return parts

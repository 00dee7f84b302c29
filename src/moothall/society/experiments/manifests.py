"""How the manifests of two runs of `moothall simulate --out` differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moothall.build import one_line

_GROUP_WORDS: Final = {"settings": "setting ", "versions": "version of ", "sha256": "sha256 of "}


def compare(manifest: Mapping[str, Any], other: Mapping[str, object]) -> list[str]:
    """Return what differs between two runs of `moothall simulate --out`, in words.

    Args:
        manifest: the content of a `manifest.json`
        other: the manifest of the other run

    Returns:
        a line for each setting, version and result that differs; it notes if a deterministic
        result differs although settings and versions agree
    """
    first, second = _values_by_name(manifest), _values_by_name(other)
    keys = [key for key in dict.fromkeys((*first, *second)) if first.get(key) != second.get(key)]
    is_explained = any(group in ("settings", "versions") for group, _ in keys)
    lines = []
    for group, name in keys:
        is_unexplained = not is_explained and name in manifest.get("deterministic", ())
        note = " (although settings and versions agree)" if is_unexplained else ""
        values = (one_line(str(each.get((group, name))), 100) for each in (first, second))
        lines.append(f"{_GROUP_WORDS.get(group, '')}{name}: {' and '.join(values)}{note}")
    return lines


def _values_by_name(manifest: Mapping[str, object]) -> dict[tuple[str, str], Any]:
    """Return a manifest's values by group and name; a hash that settings repeat is there once."""
    parts: dict[tuple[str, str], object] = {}
    for name, value in manifest.items():
        if isinstance(value, Mapping):
            parts |= {(name, each): value[each] for each in value if each not in manifest}
        elif name not in ("deterministic", "not_deterministic"):
            parts["", name] = value
    return parts

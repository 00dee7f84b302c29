"""When two values are equal as JSON."""

from __future__ import annotations

import json
from typing import Any

from moothall.build import as_json


def json_key(value: Any) -> str:
    """Return a text that is the same for values that are equal as JSON.

    The order of an object's keys does not matter, and 1 is 1.0; true is not 1, and null is a value.
    """
    return json.dumps(_plain(as_json(value)), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value

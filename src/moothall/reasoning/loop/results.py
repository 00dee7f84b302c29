"""The results of calls, as a model is shown them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moothall.jsonvalue import json_text, readable
from moothall.text import cut

if TYPE_CHECKING:
    from moothall.reasoning.loop.answer import RequestedCall

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

NOT_RUN = "not executed, because another call of the same answer was wrong"


def error_of(result: dict[str, Any]) -> str | None:
    """Return the error in a result, as text; None without one."""
    error = result.get("error")
    return None if error is None else str(error)


def result_content(result: dict[str, Any], limit: int, call: RequestedCall | None = None) -> str:
    """Return a result as a model sees it: the value as JSON (a text unchanged), or the error.

    If a person changed the arguments of its call, the result says so.
    """
    if call is not None and call.was is not None:
        args = {name: each for name, each in call.args.items() if call.was.get(name) != each}
        said = f"[A person changed the arguments of this call: {json_text(args)}]"
        return f"{result_content(result, limit)}\n{cut(said, limit)}"
    error = error_of(result)
    if error is not None:
        return json.dumps({"error": cut(readable(error), limit)}, ensure_ascii=False)
    if "result" in result:
        return cut(json_text(_without_images(result["result"])), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)


def _without_images(value: Any) -> Any:
    """Return a value whose content blocks tell of images, which no result carries to a model."""
    if not isinstance(value, list):
        return value
    return [
        _told(each) if isinstance(each, dict) and "image_url" in each else each for each in value
    ]


def _told(block: dict[str, Any]) -> dict[str, Any]:
    url = block["image_url"].get("url") if isinstance(block["image_url"], dict) else None
    if not isinstance(url, str) or not url.startswith("data:"):
        return block
    kind, _, data = url[5:].partition(";base64,")
    return {"type": "text", "text": f"[an image, {kind[:80]}, {len(data) * 3 // 4:,} bytes]"}

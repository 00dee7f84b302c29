"""Requests to doors, each a line of `exchanges/requests.jsonl`, and what its caller and model read.

A line has its `case`, the `path`, what comes as `json` or as `text`, and the `headers`. The agent
`clerk`, with an action `look`, has a model that `answers`, each of a list once, or says "done". The
answer has its `status`, and `gives` values by their places, null for what is not there; the model
`hears` the last messages and the names of `tools`, or nothing is asked of it if that is null. Of
`exchanges/whole.jsonl` the answer is `whole`, with the headers that it `sends`: its ids stand there
as `ID1`, `ID2` and so on, each for one, and times are left out.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx2
import pytest

from exchanges import lines_of
from models.test_dialogues import value_at
from moothall import ReActAgent, ScriptedModel, action
from moothall.serving import asgi


@action
def look() -> str:
    """Look."""
    raise AssertionError("no line calls it")


async def answered(app: Any, line: dict[str, Any]) -> httpx2.Response:
    here = httpx2.ASGITransport(app)
    headers = {"A2A-Version": "1.0", **line.get("headers", {})}
    headers = {name: value for name, value in headers.items() if value is not None}
    body = json.dumps(line["json"]) if "json" in line else line.get("text", "")
    async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:
        return await client.request(
            line.get("method", "POST"),
            line["path"],
            content=body.encode("latin-1"),
            headers=headers,
        )


def without_ids(text: str) -> str:
    """An answer with its ids by their order, and without times."""
    text = re.sub(r'"version":"[^"]+"', '"version":"VERSION"', text)
    text = re.sub(r'"timestamp":"[^"]+"', '"timestamp":"TIME"', text)
    text = re.sub(r'(?<=ed":|at":)[1-9]\d{9}', "1", text)
    for number, id in enumerate(dict.fromkeys(re.findall(r"[0-9a-f]{16,}", text)), 1):
        text = text.replace(id, f"ID{number}")
    return text


@pytest.mark.parametrize("line", lines_of(__file__, "requests") + lines_of(__file__, "whole"))
def test_door_answers_a_request_as_its_line_says(line: dict[str, Any]) -> None:
    heard: list[dict[str, Any]] = []
    answers = [*line.get("answers", ["done"])]

    def model(messages: Any, actions: Any) -> Any:
        heard.append({"messages": messages, "tools": [each.name for each in actions or ()]})
        return answers.pop(0) if len(answers) > 1 else answers[0]

    app = asgi(ReActAgent("clerk", ScriptedModel(model), actions=[look]))
    found = asyncio.run(answered(app, line))
    text = found.text
    assert found.status_code == line["status"], text
    assert "Traceback" not in text
    if "sends" in line:
        of_moment = ("content-length", "etag", "last-modified")
        headers = {key: each for key, each in found.headers.items() if key not in of_moment}
        assert (without_ids(text), headers) == (line["whole"], line["sends"])
    if gives := line.get("gives"):
        answer = json.loads(text)
        assert {place: value_at(answer, place) for place in gives} == gives
    if "hears" in line:
        assert bool(heard) is bool(line["hears"])
        for place, value in (line["hears"] or {}).items():
            assert value_at(heard[-1], place) == value

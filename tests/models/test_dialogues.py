"""Dialogues with servers, each a line of `exchanges/dialogues.jsonl`: what goes out, and comes in.

A line has its `case`, the `form` of the API, the `options` of the model, and the `answers` of the
server as in `test_exchanges`, the last of them again and again; one may be `cut` or `reset`. `asks`
are requests to the model (`messages`, `actions`, `schema`), `texts` are told to an agent, whose
answer follows `schema`. `URL` is the server's address. `sent` has for each request values by their
places in its body, null for what is not there; `gives` has the last reply's text, an agent's stop
reason, steps and value, or the `error`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exchanges import lines_of
from models.exchange_lines import FORMS, answer_of
from models.openai_server import Answer, OpenAIServer
from moothall import ReActAgent
from moothall.foundation.errors import ModelError
from moothall.testing.model_suite import ACTIONS, parts_of, run, user_message


def served(answer: dict[str, Any]) -> Answer:
    ends = {name: answer[name] for name in ("cut", "reset") if name in answer}
    made = answer_of(answer) if {"frames", "body", "text"} & answer.keys() else Answer()
    pieces = [*made.pieces]
    # What is cut lacks the end of its last piece.
    return replace(made, pieces=pieces[:-1] if ends and "frames" in answer else pieces, **ends)


def value_at(data: Any, place: str) -> Any:
    """The value at a place such as `messages.1.content`, or None."""
    for part in place.split("."):
        if isinstance(data, list):
            place = int(part)
            data = data[place] if place < len(data) else None
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data


async def last_of(agent: ReActAgent, text: str, schema: Any) -> Any:
    async with agent.stream(text, schema=schema) as parts:
        return [each async for each in parts][-1].reply


def outcome(model: Any, line: dict[str, Any]) -> dict[str, Any]:
    """Ask one after the other; return what the last one gives."""
    streams = line.get("asked") == "streamed"
    offered = [each for each in ACTIONS if each.name in line.get("actions", ("add",))]
    agent, schema = ReActAgent("a", model, actions=offered), line.get("schema")
    try:
        for text in line.get("texts", ()):
            reply = run((last_of if streams else ReActAgent.reply)(agent, text, schema))
            steps = [[step.action, step.args] for step in reply.steps]
            last = {"text": reply.text, "stop": reply.stop_reason, "steps": steps}
            last |= {"value": reply.value} if schema else {}
        for ask in line.get("asks", [{}] if "texts" not in line else []):
            actions = [each for each in ACTIONS if each.name in ask.get("actions", ())] or None
            request = ask.get("messages", user_message("Hi")), actions, ask.get("schema")
            parts = run(parts_of(model, *request)) if streams else [run(model.complete(*request))]
            last = {"text": parts[-1].text}
    except ModelError as error:
        return {"error": str(error).removeprefix(f"{model.name}: ")}
    return last


@pytest.mark.parametrize("line", lines_of(__file__, "dialogues"))
def test_dialogue_sends_and_gives_what_its_line_says(line: dict[str, Any]) -> None:
    with OpenAIServer(*map(served, line["answers"])) as server:
        address = server.url.removesuffix("/v1")
        line = json.loads(json.dumps(line).replace("URL", address))
        model = FORMS[line["form"]](server.url, **line.get("options", {}))
        assert outcome(model, line) == line["gives"]
    assert len(server.requests) == len(line["sent"])
    for request, values in zip(server.requests, line["sent"], strict=True):
        whole = {**request.body, "path": request.path, "headers": request.headers}
        assert {place: value_at(whole, place) for place in values} == values
    for name, value in line.get("knows", {}).items():
        assert getattr(model, name) == value

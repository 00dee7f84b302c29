"""Answers of servers, each a line of a file in `exchanges/`, and what a model reads from it.

A line has its `case` and the answer: JSON as `body`, other text as `text`, or the `frames` of a
stream (JSON, `[DONE]`, or lines as they are, as `raw`), with its `status` and `headers`. It
`gives` the fields of a reply, or the `error`, its `kind`, whether it is `of_content`, and the
`tries` where one more is allowed. Each is asked for whole and as a stream, unless `asked` says how,
with the `schema` and the `actions` of the line. Those of `tests/peers/recorded` also say their
`form`, the `date` of what runs so, and the public `source`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exchanges import lines_in, lines_of
from models.exchange_lines import FORMS, answer_of, request_of, ways
from models.openai_server import OpenAIServer
from moothall.foundation.errors import ModelError
from moothall.models import Call, ModelReply, ReasoningPiece, Usage
from moothall.testing.model_suite import joined_text, parts_of, run

RECORDED = sorted(Path(__file__).parents[1].glob("peers/recorded/*.jsonl"))
LINES = [(form, line) for form in FORMS for line in lines_of(__file__, form)]
LINES += [(line.values[0]["form"], line) for file in RECORDED for line in lines_in(file)]
EXCHANGES = [
    pytest.param(form, *line.values, asked, id=f"{form}-{asked}-{line.id}")
    for form, line in LINES
    for asked in ways(*line.values)
]


def fault(ask: Any, model: Any, server: OpenAIServer) -> dict[str, Any]:
    """What is raised; the model's name and the server's address are left out."""
    with pytest.raises(ModelError) as caught:
        run(ask)
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 500
    shown = said.removeprefix(f"{model.name}: ").replace(server.url, "URL")
    kind = type(caught.value).__name__
    of_content = caught.value.of_content
    return {"error": shown, "kind": kind, "of_content": of_content, "tries": len(server.requests)}


@pytest.mark.parametrize(("form", "exchange", "asked"), EXCHANGES)
def test_exchange_gives_what_its_line_says(form: str, exchange: dict[str, Any], asked: str) -> None:
    gives = exchange["gives"]
    with OpenAIServer(answer_of(exchange)) as server:
        options = exchange.get("options", {})
        model = FORMS[form](server.url, max_retries=int("tries" in gives), **options)
        request, is_streamed = request_of(exchange), asked == "streamed"
        ask = parts_of(model, *request) if is_streamed else model.complete(*request)
        if "error" in gives:
            came, expected = fault(ask, model, server), {"kind": "ModelError"} | gives
            assert {name: came[name] for name in expected} == expected
            return
        parts = run(ask)
        address = model.base_url
    reply = parts[-1] if is_streamed else parts
    if is_streamed:
        assert joined_text(parts) == reply.text
        assert joined_text(parts, ReasoningPiece) == reply.reasoning
    assert reply == ModelReply(
        gives.get("text", ""),
        tuple(Call(*each) for each in gives.get("calls", ())),
        Usage(*gives.get("usage", ())),
        gives.get("finish", "stop"),
        gives.get("reasoning", ""),
        tuple(each | {"server": address} for each in gives.get("thinking", ())),
        gives.get("meta", {}),
        tuple(gives.get("blocks", ())),
    )

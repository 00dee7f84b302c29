"""A reply that waits in the journal, as the doors pass it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doors.a2a_calls import plain, rpc, shop, state
from doors.conftest import client
from moothall import Journal, Waiting
from moothall.doors import asgi

Serve = Callable[[Any], str]

PAY = {"name": "buy", "args": {"item": "tea"}}


def test_a2a_task_that_waits_is_input_required_and_holds_up_nobody(
    serve: Serve, tmp_path: Path
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        agent = shop(*[PAY] * 30, "Bought.", journal=journal, approver=Waiting(who="eva"))
        url = serve(asgi(agent))
        tasks = [rpc(url, "SendMessage", plain("Buy."))["result"]["task"] for _ in range(30)]
        for task in tasks:
            assert state(task) == "TASK_STATE_INPUT_REQUIRED"
            text = task["status"]["message"]["parts"][0]["text"]
            assert text.startswith('waiting for the approval of buy(item="tea"), by eva, since ')
        got = rpc(url, "GetTask", {"id": tasks[0]["id"]})["result"]
        assert state(got) == "TASK_STATE_INPUT_REQUIRED"
        (wait,) = journal.waiting(tasks[0]["id"])
        assert wait.who == ("eva",)
        journal.answer(wait.run, wait.key, True, by="eva")
        asyncio.run(agent.resume_decided())
        got = rpc(url, "GetTask", {"id": tasks[0]["id"]})["result"]
        assert (state(got), got["artifacts"][0]["parts"][0]["text"]) == (
            "TASK_STATE_COMPLETED",
            "Bought.",
        )


def test_openai_client_reads_what_waits_and_for_whom(serve: Serve, tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        agent = shop(PAY, "Bought.", journal=journal, approver=Waiting(who="eva"))
        chat = client(serve(asgi(agent))).chat.completions
        made = chat.create(model="shop", messages=[{"role": "user", "content": "Buy."}])
        said = made.choices[0].message.content or ""
        assert said.startswith('waiting for the approval of buy(item="tea"), by eva, since ')
        assert [each.action for each in journal.waiting()] == ["buy"]

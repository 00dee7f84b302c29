"""Batches of OpenAI's and Anthropic's servers: one order, half the price, and a crash meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import commands
from commands import Command
from models.batch_server import BatchServer
from moothall import Budget, ConfigError, Journal, ModelError, ModelReply, complete_many, model
from moothall.models import AnthropicModel, FallbackModel, OpenAIModel, Price, Prices, RateLimit
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    Question,
    Society,
    Survey,
    SurveyAnswer,
)

WAYS = ("openai", "anthropic")
ASKED = ["one", "two", "three"]


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as made:
        yield made


def of(server: BatchServer, way: str = "openai", **more: Any) -> Any:
    if way == "anthropic":
        return AnthropicModel("m", server.url, "k", batch=True, **more)
    return OpenAIModel("m", server.url, batch=True, **more)


def texts(answers: list[ModelReply | ModelError]) -> list[str]:
    return [each.text if isinstance(each, ModelReply) else str(each) for each in answers]


def many(asked: Any, **more: Any) -> list[ModelReply | ModelError]:
    return asyncio.run(complete_many(asked, ASKED, **more))


def leave(server: BatchServer, asked: Any, **more: Any) -> None:
    """Cancel a call while its batch is under way."""

    async def cancel() -> None:
        waiting = asyncio.ensure_future(complete_many(asked, ASKED, **more))
        await asyncio.to_thread(server.looks.acquire)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel())


@pytest.mark.parametrize("way", WAYS)
def test_batch_answers_many_at_once_each_its_own_in_any_order(
    server: BatchServer, way: str
) -> None:
    server.finish()
    answers = many(of(server, way))
    assert texts(answers) == ["about one", "about two", "about three"]
    assert [len(each) for each in server.batches.values()] == [3]


@pytest.mark.parametrize("way", WAYS)
async def test_batch_waits_until_it_is_over(server: BatchServer, way: str) -> None:
    waiting = asyncio.ensure_future(complete_many(of(server, way), ASKED))
    await asyncio.to_thread(server.looks.acquire)
    assert not waiting.done()
    server.finish()
    assert texts(await waiting) == ["about one", "about two", "about three"]


@pytest.mark.parametrize("way", WAYS)
def test_batch_tells_single_failures_apart_and_asks_again_what_expired(way: str) -> None:
    def answers(prompt: str, tries: int) -> Any:
        if prompt == "one":
            return 400
        return "expired" if prompt == "two" and tries == 1 else f"{prompt} at {tries}"

    with BatchServer(answers) as server:
        server.finish()
        first, second, third = texts(many(of(server, way)))
    assert "the server answered 400: wrong: one" in first
    assert (second, third) == ("two at 2", "three at 1")
    assert [len(each) for each in server.batches.values()] == [3, 1]


@pytest.mark.parametrize("way", WAYS)
def test_batch_gives_up_what_expires_again_and_again(way: str) -> None:
    with BatchServer(lambda prompt, _: "expired" if prompt == "one" else prompt) as server:
        server.finish()
        first, *others = texts(many(of(server, way, max_retries=1)))
    assert "expired before this was answered; tried 2 times" in first
    assert others == ["two", "three"]


def test_batch_retries_failures_of_the_server_within_it() -> None:
    with BatchServer(lambda prompt, tries: 500 if tries == 1 else prompt) as server:
        server.finish()
        assert texts(many(of(server))) == ASKED
    assert len(server.batches) == 2


def test_batch_that_the_server_refuses_says_why(server: BatchServer) -> None:
    server.finish("failed")
    assert "batch batch_0 failed: The model is not known" in texts(many(of(server)))[2]


def test_batch_that_is_cancelled_elsewhere_is_an_error(server: BatchServer) -> None:
    server.finish("cancelled")
    assert texts(many(of(server)))[0].endswith("batch batch_0 was cancelled")


@pytest.mark.parametrize("way", WAYS)
def test_batch_nobody_waits_for_any_more_is_cancelled(server: BatchServer, way: str) -> None:
    leave(server, of(server, way))
    assert server.cancelled == ["batch_0"]


@pytest.mark.parametrize("way", WAYS)
def test_batch_costs_half(server: BatchServer, way: str) -> None:
    server.finish()
    name = "openai:m" if way == "openai" else "anthropic:m"
    asked = of(server, way)
    asked.name, asked.half_price = name, True
    budget = Budget(usd=1, prices=Prices({name: Price(2, 10)}))
    many(asked, budget=budget)
    assert Decimal(repr(budget.spent.usd)) == 3 * (Decimal("0.002") + Decimal("0.001")) / 2


def test_batch_of_a_named_provider_has_half_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    for name in ("openai:gpt-5", "anthropic:claude-sonnet-4-5"):
        made: Any = model(name, batch=True)
        assert made.batch
        assert made.half_price
        assert not model(name).half_price  # type: ignore[union-attr, attr-defined]
        assert FallbackModel([made]).batch
    assert not OpenAIModel("m", "http://127.0.0.1:9/v1", batch=True).half_price


def test_batch_of_a_model_without_them_is_refused() -> None:
    with pytest.raises(ConfigError, match="local is not behind a server: leave out batch="):
        model("local", batch=True)
    with pytest.raises(ConfigError, match="leave out rate_limit="):
        OpenAIModel("m", "http://127.0.0.1:9/v1", batch=True, rate_limit=RateLimit(9))


def test_survey_of_a_society_goes_as_one_batch(server: BatchServer) -> None:
    server.answers = lambda *_: json.dumps({"mood": 4})
    server.finish()
    citizens = [CitizenAgent(id, memory=CitizenMemory({})) for id in "abc"]

    async def ask() -> list[SurveyAnswer]:
        async with Society(citizens, model=of(server), model_timeout_s=0.01) as society:
            mood = Question("mood", "How are you?", "scale")
            return await society.survey(Survey("x", [mood]))

    answers = asyncio.run(ask())
    assert [(each.citizen, each.value, each.source) for each in answers] == [
        (id, 4, "model") for id in "abc"
    ]
    assert [len(each) for each in server.batches.values()] == [3]


PROGRAM = """
import asyncio, sys
from pathlib import Path
from moothall import Budget, Journal, complete_many
from moothall.models import OpenAIModel, Price, Prices

url, folder = sys.argv[1:]
asked = OpenAIModel("m", url, batch=True)
budget = Budget(usd=1, prices=Prices({asked.name: Price(2, 10)}))
with Journal(Path(folder) / "journal") as journal:
    answers = asyncio.run(complete_many(
        asked, ["one", "two", "three"], budget=budget, journal=journal, run_id="r"
    ))
print([each.text for each in answers], budget.spent.usd, budget.spent.model_calls)
"""


def test_batch_of_a_killed_process_is_fetched_and_paid_once(
    server: BatchServer, tmp_path: Path
) -> None:
    program = (server.url, tmp_path)
    first = Command(*program, code=PROGRAM)
    assert server.looks.acquire(timeout=60)  # the journal knows the batch
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    server.finish()
    for _ in range(2):  # once more: all is recorded
        done = commands.run(*program, code=PROGRAM)
        assert done.stdout == "['about one', 'about two', 'about three'] 0.009 3\n", done.stderr
    assert [len(each) for each in server.batches.values()] == [3]
    assert server.cancelled == []


def test_batch_of_a_cut_off_survey_is_fetched_and_paid_once(
    server: BatchServer, tmp_path: Path
) -> None:
    server.answers = lambda *_: json.dumps({"mood": 4})
    survey = Survey("x", [Question("mood", "How are you?", "scale")])

    async def ask(cut: bool) -> float:
        citizens = [CitizenAgent(id, memory=CitizenMemory({})) for id in "abc"]
        asked = of(server, "anthropic")
        budget = Budget(usd=1, prices=Prices({asked.name: Price(2, 10)}))
        how = {"model": asked, "budget": budget, "journal": tmp_path / "journal"}
        async with Society(citizens, **how) as society:
            asking = asyncio.ensure_future(society.survey(survey, run_id="r"))
            await asyncio.to_thread(server.looks.acquire)
            if cut:
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            else:
                server.finish()
                assert {each.source for each in await asking} == {"model"}
        return budget.spent.usd

    asyncio.run(ask(True))
    assert asyncio.run(ask(False)) == 0.009
    assert [len(each) for each in server.batches.values()] == [3]


SWEEP = """
import sys
from moothall.society import Experiment
results = Experiment.from_yaml(sys.argv[1]).run_sync(jobs=1, out=sys.argv[2])
print(sorted(results.values("mood.mood").values()))
"""
MAKE = """
from moothall import OpenAIModel
from moothall.society import CitizenAgent, CitizenMemory, Society

def made(seed, url):
    citizens = [CitizenAgent(id, memory=CitizenMemory({})) for id in "abc"]
    return Society(citizens, model=OpenAIModel("m", url, batch=True), seed=seed)
"""
EXPERIMENT = """
name: moods
society: {{make: make.py:made, step: 1h, url: "{url}"}}
metrics: [messages]
workflow:
- step: 1
- survey: {{name: mood, questions: [{{id: mood, text: "How are you?", kind: scale}}]}}
seeds: 2
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_batches_of_a_killed_experiment_are_fetched_and_paid_once(
    server: BatchServer, tmp_path: Path
) -> None:
    server.answers = lambda *_: json.dumps({"mood": 4})
    (tmp_path / "make.py").write_text(MAKE)
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(url=server.url))
    program = [sys.executable, "-c", SWEEP, str(tmp_path / "e.yaml"), str(tmp_path / "out")]
    first = subprocess.Popen(program)
    for _ in range(2):  # the journal knows the batch of the first cell
        assert server.looks.acquire(timeout=60)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    server.finish()
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout == "[4.0, 4.0]\n", done.stderr
    assert [len(each) for each in server.batches.values()] == [3, 3]
    assert not list(tmp_path.rglob("*.batches"))


def test_batch_of_a_run_that_goes_on_later_is_not_cancelled(
    server: BatchServer, tmp_path: Path
) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.leave_runs()
        leave(server, of(server), journal=journal, run_id="r")
        journal.leave_runs(leave=False)
        server.finish()
        answers = many(of(server), journal=journal, run_id="r")
    assert texts(answers) == ["about one", "about two", "about three"]
    assert (server.cancelled, len(server.batches)) == ([], 1)


def test_batch_found_again_that_is_gone_is_asked_anew(server: BatchServer, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        leave(server, of(server), journal=journal, run_id="r")
        server.batches["kept"] = server.batches.pop("batch_0")
        server.finish()
        answers = many(of(server), journal=journal, run_id="r")
    assert texts(answers) == ["about one", "about two", "about three"]


# -- the server of these tests is what the providers' own clients understand -----------------------


@pytest.mark.long
def test_batch_requests_and_the_server_fit_the_published_clients(server: BatchServer) -> None:
    import anthropic
    import openai
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    server.finish()
    for way in WAYS:
        many(of(server, way), schema={"type": "object", "properties": {}})
    chat, messages = server.batches.values()
    for body in chat.values():
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body, strict=True)
    for body in messages.values():
        TypeAdapter(MessageCreateParamsNonStreaming).validate_python(body, strict=True)
    with openai.OpenAI(api_key="k", base_url=server.url) as client:
        batch = client.batches.retrieve("batch_0")
        assert batch.output_file_id is not None
        lines = client.files.content(batch.output_file_id).text.splitlines()
    assert batch.status == "completed"
    assert {json.loads(each)["custom_id"] for each in lines} == set(chat)
    url = server.url.removesuffix("/v1")
    with anthropic.Anthropic(api_key="k", base_url=url) as client2:
        ended = client2.messages.batches.retrieve("batch_1")
    assert ended.processing_status == "ended"

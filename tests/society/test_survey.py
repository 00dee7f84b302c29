"""Surveys and interviews: typed answers with their source, which change nothing in a society."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from examples.models.opinions import opinions

from moothall import Budget, ConfigError, Journal, ScriptedModel
from moothall.foundation.errors import ModelError, RunMismatch
from moothall.models.protocol import ModelReply, Usage
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    City,
    LocalEngine,
    Question,
    Respondent,
    Society,
    Survey,
    SurveyAnswer,
)
from moothall.society.kernel.perception import Perception, View
from moothall.society.survey import describe_itself
from society.life import busy, state_of, town

MOOD = Question("mood", "How do you feel?", "scale", by=lambda me: me.status["money"] % 5 + 1)
AWAY = Question("away", "Are you away?", "yes_no", by=lambda me: me.perceived.place != "a")
SURVEY = Survey("feeling", [MOOD, AWAY])


class Fixed(ScriptedModel):
    """Gives one answer each time, and keeps what it was asked; an error is raised."""

    def __init__(self, answer: Any) -> None:
        super().__init__(())
        self.answer = answer
        self.asked: list[tuple[Any, Any]] = []

    async def complete(
        self, messages: list[Any], actions: Any = None, schema: Any = None, **_: Any
    ) -> ModelReply:
        self.asked.append((messages, schema))
        if isinstance(self.answer, Exception):
            raise self.answer
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        return ModelReply(text, usage=Usage(1, 1))


def people(**statuses: dict[str, Any]) -> list[CitizenAgent]:
    return [CitizenAgent(id, memory=CitizenMemory(status)) for id, status in statuses.items()]


async def test_rules_answer_in_id_order_and_say_so() -> None:
    citizens = people(b={"money": 7, "home": "b"}, a={"money": 10, "home": "a"})
    async with Society(citizens, town()) as society:
        await society.run(steps=2)
        answers = await society.survey(SURVEY)
        assert await society.survey(SURVEY, ["b"]) == answers[2:]
    assert answers == [
        SurveyAnswer("a", "mood", 1, "rule", "", 2),
        SurveyAnswer("a", "away", False, "rule", "", 2),
        SurveyAnswer("b", "mood", 3, "rule", "", 2),
        SurveyAnswer("b", "away", True, "rule", "", 2),
    ]
    async with Society(people(**{id: {"money": 1} for id in ("9", "10", "100")})) as society:
        answers = await society.survey(SURVEY, [100, "9", 10, 9])  # numbers by number, each once
        assert [each.citizen for each in answers[::2]] == ["9", "10", "100"]


async def test_survey_asks_a_model_once_a_citizen_through_the_schema() -> None:
    model = Fixed({"mood": 4, "away": True})
    async with Society(people(a={"money": 1}, b={"money": 2}), model=model) as society:
        answers = await society.survey(SURVEY)
        assert society.fallbacks == 0
    assert [(each.value, each.source) for each in answers] == [(4, "model"), (True, "model")] * 2
    assert len(model.asked) == 2
    messages, schema = model.asked[0]
    assert schema["properties"]["mood"] == {
        "description": "How do you feel?",
        "type": "integer",
        "minimum": 1,
        "maximum": 5,
    }
    assert "How do you feel?" in messages[1]["content"]


@pytest.mark.parametrize(
    ("answer", "sources", "said"),
    (
        (ModelError("no weights"), ["rule", "rule"], "no weights"),
        ("I feel fine", ["rule", "rule"], "not JSON"),
        ([4, True], ["rule", "rule"], "not of type 'object'"),
        ({"mood": 6, "away": True}, ["rule", "model"], "must be a whole number from 1 to 5, got 6"),
        ({"mood": True, "away": True}, ["rule", "model"], "mood: must be a whole number from 1"),
        ({"away": False}, ["rule", "model"], "whole number from 1 to 5, got None"),
    ),
)
async def test_survey_unusable_model_answer_falls_back_to_the_rule_and_is_counted(
    answer: Any, sources: list[str], said: str
) -> None:
    async with Society(people(a={"money": 1}), model=Fixed(answer)) as society:
        answers = await society.survey(SURVEY)
        assert society.fallbacks == 1
    assert [each.source for each in answers] == sources
    assert answers[0].value == 2
    assert said in answers[0].reason


async def test_survey_asks_a_citizen_once_more_and_tells_it_the_fault(tmp_path: Path) -> None:
    said = ["Fine.", json.dumps({"mood": 4, "away": True})]
    model, record = ScriptedModel(said), tmp_path / "j.db"
    async with Society(people(a={"money": 1}), model=model, journal=Journal(record)) as society:
        answers = await society.survey(SURVEY, run_id="S")
        assert society.fallbacks == 0
    assert [(each.value, each.source) for each in answers] == [(4, "model"), (True, "model")]
    assert "Your answer is not JSON" in model.received[1][-1]["content"]

    silent = ScriptedModel([])
    async with Society(people(a={"money": 1}), model=silent, journal=Journal(record)) as society:
        assert await society.survey(SURVEY, run_id="S") == answers
    assert silent.received == []


async def test_survey_rule_that_fails_or_gives_another_type_leaves_no_answer() -> None:
    survey = Survey(
        "wrong",
        [
            Question("fails", "?", "text", by=lambda me: me.status["none"]),
            Question("other", "?", "choice", choices=("x", "y"), by=lambda me: "z"),
            Question("none", "?", "number"),
        ],
    )
    async with Society(people(a={})) as society:
        answers = await society.survey(survey)
    assert [(each.value, each.source) for each in answers] == [(None, "none")] * 3
    for answer, said in zip(answers, ("KeyError", "'z'", "has no rule, `by`"), strict=True):
        assert said in answer.reason


async def test_answering_changes_nothing() -> None:
    def meddles(me: Respondent) -> str:
        me.status["money"] = 0
        me.stream.clear()
        return "done"

    survey = Survey("meddling", [Question("q", "?", by=meddles)])
    model = Fixed("nonsense")
    async with Society(busy(20), town(), model=model) as society:
        await society.run(steps=3)
        society.announce("Fire!")
        before = state_of(society)
        assert {each.value for each in await society.survey(survey)} == {"done"}
        await society.interview(3, "How are you?")
        assert society.respondent(3).perceived.news == ["Fire!"]
        assert state_of(society) == before
        await society.run(steps=3)
        after = state_of(society)
    async with Society(busy(20), town(), model=model) as society:
        await society.run(steps=3)
        society.announce("Fire!")
        await society.run(steps=3)
        assert state_of(society) == after


async def test_survey_keeps_the_societys_limits_of_time_and_budget() -> None:
    budget = Budget(model_calls=1)
    model = Fixed({"mood": 4, "away": True})
    citizens = people(a={"money": 1}, b={"money": 1})
    async with Society(citizens, model=model, budget=budget) as society:
        answers = await society.survey(SURVEY)
    assert len(model.asked) == budget.spent.model_calls == 1
    assert sorted(each.source for each in answers) == ["model", "model", "rule", "rule"]


async def test_survey_that_was_recorded_is_not_asked_again(journal: Journal) -> None:
    model = Fixed({"mood": 4, "away": True})
    told = []
    for _ in range(2):
        async with Society(people(a={}, b={}), model=model, journal=journal) as society:
            told.append(await society.survey(SURVEY, run_id="S"))
    assert told[0] == told[1]
    assert len(model.asked) == 2
    async with Society(people(a={}), model=model, journal=journal) as society:
        with pytest.raises(RunMismatch):
            await society.survey(SURVEY, run_id="S")
    async with Society(people(a={}, b={}), model=model, journal=journal) as society:
        await society.survey(SURVEY, ["a"], run_id="T")
        for other, who in ((SURVEY, ["b"]), (Survey("feeling", [MOOD]), ["a"])):
            with pytest.raises(RunMismatch):
                await society.survey(other, who, run_id="T")


async def test_survey_that_was_broken_off_continues(tmp_path: Path) -> None:
    begun = asyncio.Event()
    here = asyncio.get_running_loop()

    class Hanging(Fixed):
        async def complete(self, *args: Any, **options: Any) -> ModelReply:
            if self.asked:
                here.call_soon_threadsafe(begun.set)
                await asyncio.Event().wait()
            return await super().complete(*args, **options)

    right = {"mood": 4, "away": True}
    with Journal(tmp_path / "journal") as journal:
        options: dict[str, Any] = {"journal": journal, "engine": LocalEngine(concurrency=1)}
        async with Society(people(a={}, b={}), model=Hanging(right), **options) as society:
            running = asyncio.create_task(society.survey(SURVEY, run_id="S"))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        model = Fixed(right)
        async with Society(people(a={}, b={}), model=model, **options) as society:
            answers = await society.survey(SURVEY, run_id="S")
    assert len(model.asked) == 1
    assert {each.source for each in answers} == {"model"}


async def test_interview_by_rule_says_how_a_citizen_is_and_what_it_plans() -> None:
    plan = [
        {"do": "sleep", "where": "a", "from": 0, "until": 32_400},
        {"do": "work", "where": "office-1", "from": 32_400, "until": 63_000},
        {"do": "rest", "where": None, "from": 63_000, "until": 86_400},
    ]
    status = {"home": "a", "money": 250, "plan": plan, "now": 1, "needs": {"energy": 700}}
    status["profile"] = {"age": 30, "skill": 880, "interests": {"art": 700, "food": 600}}
    citizen = CitizenAgent(1, "Ada", memory=CitizenMemory(status, [[0, "It rained."]]))
    async with Society([citizen], town()) as society:
        said = await society.interview(1, "What are you doing?")
    assert said.source == "rule"
    assert said == (
        "(by rule, not by a model: this is how it is) I am Ada. age: 30, skill: 88 %, "
        "interests: art, food. I am at a. I have 2.50. How far my needs are met: "
        "energy 70 %. I remember: It rained. My plan: 09:00 to 17:30 work at office-1; "
        "17:30 to 24:00 rest."
    )


async def test_survey_traveller_says_so_and_remembers_messages() -> None:
    me = Respondent("7", "", {"moving": {"to": "b"}}, [{"content": "Hello."}], None)  # type: ignore[arg-type]
    here = Perception(View(), "7", me.status)
    said = describe_itself(replace(me, perceived=here))
    assert said.endswith(" I am 7. I am on the way to b. I remember: Hello. My plan: none.")


async def test_survey_shows_a_model_how_the_citizen_is_and_the_last_it_remembers() -> None:
    model = Fixed({"mood": 5, "away": False})
    plan = [{"do": "sleep", "from": 0, "until": 86_400}]
    status = {
        "money": 3,
        "town": "Orléans",
        "plan": plan,
        "fallbacks": {"PlanBlock": 2},
        "trust": 4,
    }
    citizen = CitizenAgent(1, memory=CitizenMemory(status, [[n, f"event {n}"] for n in range(12)]))
    async with Society([citizen], model=model) as society:
        answers = await society.survey(SURVEY)
    assert [each.source for each in answers] == ["model", "model"]  # 5 is on the scale
    (messages, _), *_ = model.asked
    shown = json.loads(messages[1]["content"].rpartition("\n")[2])
    assert shown["you remember"][2:4] == ["00:30: event 2", "00:45: event 3"]
    assert len(shown["you remember"]) == 12
    assert "plan" not in shown["you"]
    assert "fallbacks" not in shown["you"]
    assert shown["you"]["trust"] == 4
    assert "Orléans" in messages[1]["content"]
    assert shown["you"]["money"] == 3


@pytest.mark.parametrize("citizens", (20, 1000))
async def test_interview_of_one_citizen_of_a_town_by_rules_may_be_by_a_model(citizens: int) -> None:
    model = Fixed({"answer": "Work is hard."})
    async with Society(citizens, City.generate(seed=7, citizens=citizens), seed=7) as society:
        before = society.state_dict()
        said = await society.interview(3, "How are you?", model=model)
        assert (str(said), said.source) == ("Work is hard.", "model")
        assert "How are you?" in str(model.asked)
        assert (await society.interview(3, "How are you?")).source == "rule"
        assert society.state_dict() == before
        with pytest.raises(ModelError, match="nosuch"):
            await society.interview(3, "How are you?", model="nosuch")


async def test_interview_by_a_model_says_what_the_model_says() -> None:
    model = Fixed({"answer": "Working, as ever."})
    async with Society(people(a={}), model=model) as society:
        said = await society.interview("a", "What are you doing?")
        with pytest.raises(ConfigError, match="no citizen 'z'"):
            await society.interview("z", "Who are you?")
        with pytest.raises(ConfigError, match="citizens must be a list, got '17'"):
            await society.survey(Survey("x", [MOOD]), "17")  # not citizens 1 and 7
        model.answer = {"answer": " \n"}
        assert (await society.interview("a", "And now?")).source == "rule"  # that says nothing
    assert (said, said.source) == ("Working, as ever.", "model")


@pytest.mark.parametrize(
    ("given", "said"),
    (
        ({"kind": "essay"}, "kind"),
        ({"id": " "}, "id"),
        ({"kind": "choice"}, "choices"),
        ({"kind": "text", "choices": ("a",)}, "choices"),
        ({"kind": "choice", "choices": ("a", "a")}, "choices"),
        ({"kind": "scale", "low": 5, "high": 5}, "low must be below high"),
        ({"kind": "scale", "low": 0.5}, "whole"),
        ({"kind": "yes_no", "low": 1}, "low and high"),
        ({"kind": "number", "high": float("nan")}, "numbers"),
        ({"by": 3}, "plain function"),
    ),
)
def test_survey_question_that_is_wrong_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Question(**{"id": "q", "text": "Why?", **given})


def test_survey_has_questions_each_once() -> None:
    for wrong in ([], [MOOD, MOOD], ["How are you?"]):
        with pytest.raises(ConfigError, match="survey 'x'"):
            Survey("x", wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="questions must be a list"):
        Survey("x", MOOD)  # type: ignore[arg-type]


async def test_survey_of_many_does_not_block_the_loop() -> None:
    asked: list[int] = []

    def rule(one: Respondent) -> float:
        if not asked:
            asyncio.get_running_loop().call_soon(lambda: asked.append(len(asked)))
        asked.append(-1)
        return 1.0

    async with Society(opinions(1, citizens=3000)) as society:
        await society.survey(Survey("x", [Question("q", "?", "number", by=rule)]))
    assert 0 < max(asked) < 2000

"""Models in a society: side by side, limited in time, recorded; what fails costs one turn."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moothall import AgentToolbox, Budget, Journal, ScriptedModel
from moothall.agents.block import Block
from moothall.foundation.errors import CommandTimeout, ConfigError, ModelError
from moothall.models.protocol import ModelReply, Usage
from moothall.society import CitizenAgent, City, LocalEngine, Question, Society, Survey
from society.life import living


class Counting(ScriptedModel):
    """Repeats what it was asked, and counts; what `hangs` names never ends."""

    def __init__(self, hangs: str = "", fails: str = "") -> None:
        super().__init__(())
        self.hangs, self.fails = hangs, fails
        self.now = self.most = self.calls = 0

    async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
        asked = messages[-1]["content"]
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if asked == self.hangs:
                await asyncio.Event().wait()
            if asked == self.fails:
                raise ModelError("no weights")
            await asyncio.sleep(0)
            return ModelReply(f"you said {asked}", usage=Usage(3, 4))
        finally:
            self.now -= 1


class Named(Block):
    """A block of a name, which notes that it acted."""

    def __init__(self, name: str, fits: float = 1.0) -> None:
        super().__init__()
        self.name, self.fitness = name, fits

    def fits(self, context: Any) -> float:
        return self.fitness

    async def forward(self) -> None:
        self.agent.status["did"] = self.name


def asking(text: str = "", id: int | str = 1, *actions: Any) -> CitizenAgent:
    """A citizen that asks the model something each step, and remembers the answer or the error."""

    async def ask(me: CitizenAgent) -> None:
        prompt = [{"role": "user", "content": text or f"{me.id}"}]
        try:
            answer = (await me.llm.complete(prompt, actions)).text
        except ModelError as error:
            me.fell_back(str(error))
            answer = str(error)
        me.memory.note(me.perceived.step, answer)

    return living(ask, id=id)


async def test_citizens_ask_side_by_side_up_to_the_bound() -> None:
    model = Counting()
    citizens = [asking(id=number) for number in range(20)]
    async with Society(citizens, model=model, engine=LocalEngine(concurrency=5)) as society:
        row = await society.step()
    assert (model.most, model.calls, row["model_calls"]) == (5, 20, 20)
    assert citizens[7].memory.stream == [(0, "you said 7")]


async def test_survey_asks_side_by_side_up_to_the_bound() -> None:
    model = Counting()
    survey = Survey("mood", [Question("mood", "How do you feel?")])
    citizens = [asking(id=number) for number in range(20)]
    async with Society(citizens, model=model, engine=LocalEngine(concurrency=5)) as society:
        await society.survey(survey)
    assert model.most == 5


async def test_model_that_hangs_or_fails_costs_that_citizen_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Counting(hangs="2", fails="3")
    citizens = [asking(id=number) for number in range(1, 6)]
    citizens[4].toolbox = AgentToolbox(ScriptedModel([CommandTimeout("it is not up in 5 s")]))
    async with Society(citizens, model=model, model_timeout_s=0.05) as society:
        row = await society.step()
    assert (row["failures"], row["fallbacks"]) == (0, 3)
    assert [each.memory.stream[0][1] for each in citizens] == [
        "you said 1",
        "the model did not answer agent '2': it took longer than 0.05 s",
        "the model did not answer agent '3': ModelError: no weights",
        "you said 4",
        "the model did not answer agent '5': CommandTimeout: it is not up in 5 s",
    ]
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == 1  # the others are counted
    assert "so a rule decides: the model did not answer" in warned[0]


async def test_model_outage_is_recorded_and_repeated_on_resume(journal: Journal) -> None:
    class Stop(Exception):
        pass

    def stop(row: Any) -> None:
        if row["step"] == 1:
            raise Stop

    first = Counting(hangs="2", fails="3")
    citizens = [asking(id=number) for number in range(1, 5)]
    options: dict[str, Any] = {"journal": journal, "model_timeout_s": 0.05}
    async with Society(citizens, model=first, **options) as society:
        with pytest.raises(Stop):
            await society.run(steps=3, run_id="R", progress=stop)
    told = [list(each.memory.stream) for each in citizens]
    second = Counting()
    citizens = [asking(id=number) for number in range(1, 5)]
    async with Society(citizens, model=second, **options) as society:
        rows = await society.run(steps=3, run_id="R")
    assert [each.memory.stream[:2] for each in citizens] == told
    assert second.calls == 4  # those of the last step alone
    assert [row["fallbacks"] for row in rows] == [2, 2, 0]


async def test_manifest_tells_by_a_hash_whether_the_prompts_were_the_same(
    tmp_path: Path,
) -> None:
    class Stop(Exception):
        pass

    async def live(out: str, text: str = "", stop: int = -1, **options: Any) -> Any:
        def progress(row: Any) -> None:
            if row["step"] == stop:
                raise Stop

        citizens = [asking(text, id=number) for number in range(1, 4)]
        async with Society(citizens, model=Counting(), **options) as society:
            recorded: Any = {"run_id": "R", "save_every": 2} if options else {}
            await society.run(steps=4, progress=progress, out=tmp_path / out, **recorded)
        return json.loads((tmp_path / out / "manifest.json").read_text())["prompts_sha256"]

    whole = await live("whole")
    with Journal(tmp_path / "journal") as journal:
        with pytest.raises(Stop):
            await live("stopped", stop=2, journal=journal)
        assert await live("stopped", journal=journal) == whole
    assert await live("same") == whole
    assert await live("other", "hello") != whole


async def test_model_is_asked_the_same_prompt_once_a_step_where_that_is_allowed() -> None:
    may_call = (CitizenAgent.say,)  # who may call actions is asked by itself
    for once, calls, actions in ((True, 2, ()), (False, 8, ()), (True, 8, may_call)):
        model = Counting()
        citizens = [asking("hello", number, *actions) for number in range(4)]
        async with Society(citizens, model=model, ask_once=once) as society:
            await society.run(steps=2)
        assert model.calls == calls
        assert {str(each.memory.stream) for each in citizens} == {
            str([(0, "you said hello"), (1, "you said hello")])
        }
    with pytest.raises(ConfigError, match="ask_once must be True or False, got 'x'"):
        Society(ask_once="x")  # type: ignore[arg-type]


async def test_model_that_exits_costs_the_turn_of_one_and_the_answer_of_those_who_share_it() -> (
    None
):
    class Exiting(Counting):
        async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
            await super().complete(messages)
            raise SystemExit(2)

    citizens, model = [asking("hello", number) for number in range(3)], Exiting()
    async with Society(citizens, model=model, ask_once=True, turn_timeout_s=1) as society:
        row = await society.step()
    assert (model.calls, row["fallbacks"], row["failures"]) == (1, 2, 1)


@pytest.mark.parametrize("id", ("{}", "flat#{}"))
async def test_budget_of_a_society_holds_for_all_together_and_across_processes(
    journal: Journal, id: str
) -> None:
    for _ in range(2):
        model, budget = Counting(), Budget(model_calls=5)
        citizens = [asking(id=id.format(number)) for number in range(3)]
        async with Society(citizens, model=model, budget=budget, journal=journal) as society:
            rows = await society.run(steps=3, run_id="R")
        assert [row["fallbacks"] for row in rows] == [0, 1, 3]
        assert budget.spent.model_calls == 5
    assert model.calls == 0


@pytest.mark.parametrize("same", (False, True), ids=("another", "same"))
async def test_models_and_budgets_of_citizens_are_recalled_too(tmp_path: Path, same: bool) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 1:
            raise RuntimeError("stop")

    budgets: list[Budget] = []
    with Journal(tmp_path / "journal") as journal:
        for progress in (stop, None):
            if not (same and budgets):
                whole = Budget(model_calls=9)
                budgets = [whole, whole.child(model_calls=2), Budget(model_calls=3)]
            citizens = [asking(id=number) for number in range(3)]
            for citizen, budget in zip(citizens, (None, *budgets[1:]), strict=True):
                citizen.toolbox, citizen.budget = AgentToolbox(Counting()), budget
            async with Society(citizens, budget=budgets[0], journal=journal) as society:
                try:
                    rows = await society.run(steps=4, run_id="R", save_every=1, progress=progress)
                except RuntimeError:
                    assert progress is stop
    assert [row["fallbacks"] for row in rows] == [0, 0, 1, 2]
    assert [each.spent.model_calls for each in budgets] == [6, 2, 3]


async def test_budget_may_be_a_citizens_own() -> None:
    model, budget = Counting(), Budget(model_calls=10)
    rich, poor = asking(id=1), asking(id=2)
    poor.budget = budget.child(model_calls=1)
    async with Society([rich, poor], model=model, budget=budget) as society:
        rows = await society.run(steps=3)
    assert [row["fallbacks"] for row in rows] == [0, 1, 1]
    assert budget.spent.model_calls == 4


async def test_dispatcher_asks_the_model_and_falls_back_to_the_rule() -> None:
    done: list[str] = []

    class Walk(Block):
        def fits(self, context: Any) -> float:
            return 1.0

        async def forward(self) -> None:
            done.append("walk")

    class Talk(Walk):
        def fits(self, context: Any) -> float:
            return 0.5

        async def forward(self) -> None:
            done.append("talk")

    model = ScriptedModel(['{"block": "Talk", "reason": "a chat"}', ModelError("gone")])
    citizen = CitizenAgent(1, blocks=[Walk(), Talk()])
    async with Society([citizen], model=model) as society:
        rows = await society.run(steps=2)
    assert done == ["talk", "walk"]
    assert [row["fallbacks"] for row in rows] == [0, 1]
    assert [each.block for each in citizen.dispatcher.decisions] == ["Talk", "Walk"]
    assert "You are at" not in model.received[0][1]["content"]  # there is no city


async def test_citizen_in_another_society_asks_through_that_one() -> None:
    none = '{"block": null, "reason": "rest"}'

    def blocks() -> list[Block]:
        return [Named("Sing"), Named("Dance")]

    own, first, second = (ScriptedModel([none] * 2) for _ in range(3))
    citizens = [
        CitizenAgent(1, blocks=blocks()),
        CitizenAgent(2, toolbox=AgentToolbox(own), blocks=blocks()),
    ]
    for model in (first, second):
        async with Society(citizens, model=model, budget=Budget(model_calls=2)) as society:
            row = await society.step()
        assert (row["model_calls"], row["fallbacks"], len(model.received)) == (2, 0, 1)
    assert len(own.received) == 2


async def test_model_of_a_block_is_limited_and_recorded_too() -> None:
    class Ask(Block):
        def fits(self, context: Any) -> float:
            return 1.0

        async def forward(self) -> None:
            await self.llm.complete([{"role": "user", "content": "own"}])

    citizen = CitizenAgent(1, blocks=[Ask(llm=Counting(hangs="own"))])
    async with Society([citizen], model_timeout_s=0.05) as society:
        row = await society.step()
    assert (row["failures"], row["model_calls"]) == (1, 1)
    assert "took longer than 0.05 s" in society.failures[0][2]


async def test_answers_that_name_no_block_are_counted_and_a_choice_of_none_is_not() -> None:
    said = [json.dumps({"block": name, "reason": ""}) for name in ("Sing", None, "Fly")]
    citizens = [CitizenAgent(id, blocks=[Named("Sing"), Named("Dance")]) for id in range(4)]
    async with Society(citizens, model=ScriptedModel([*said, "nonsense"])) as society:
        row = await society.step()
    assert (row["fallbacks"], row["failures"]) == (2, 0)
    assert [each.status.get("did") for each in citizens] == ["Sing", None, None, "Sing"]


async def test_dispatcher_asks_the_model_only_where_several_things_can_be_done() -> None:
    model = ScriptedModel(['{"block": "Dance", "reason": "why not"}', '{"block": "Rest"}'])
    sing, dance, rest = Named("Sing"), Named("Dance"), Named("Rest", fits=0.0)
    citizen = CitizenAgent(1, blocks=[sing, rest, dance])
    async with Society([citizen], model=model) as society:
        await society.step()
        offered = json.loads(model.received[0][1]["content"])["blocks"]
        assert [each["block"] for each in offered] == ["Sing", "Dance"]
        sing.fitness = 0.0
        row = await society.step()
        assert (row["model_calls"], citizen.status["did"]) == (0, "Dance")
        dance.fitness = 0.0
        assert (await society.step())["model_calls"] == 0
    made = [(each.block, each.reason) for each in citizen.dispatcher.decisions]
    assert made == [
        ("Dance", "why not"),
        ("Dance", "it alone can act now"),
        (None, "no block can act now"),
    ]


async def test_decisions_are_looked_up_by_citizen_and_step_with_prompt_cost_and_reason(
    tmp_path: Path,
) -> None:
    class Model(ScriptedModel):
        async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
            chosen = json.dumps({"block": "Named", "reason": "it is time"})
            text = chosen if "which block" in messages[0]["content"] else "nonsense"
            return ModelReply(text, usage=Usage(100, 5))

    options: Any = {"model": Model(()), "budget": Budget(tokens=100_000), "seed": 7}
    with Journal(tmp_path / "j.db") as journal:
        city = City.generate(seed=7, citizens=10)
        async with Society(10, city, journal=journal, **options) as society:
            with pytest.raises(ConfigError, match="give journal= and run"):
                society.decisions()
            await society.run(steps=2, run_id="r")
            first, again = society.decisions(7)
            assert len(society.decisions(step=0)) == len(society.decisions()) == 20
            assert society.decisions(step=1) == []
            survey = Survey("mood", [Question("glad", "Glad?", kind="yes_no", by=lambda _: True)])
            await society.survey(survey, [7], run_id="asked")
            asked = society.decisions(run_id="asked")
    assert (first.citizen, first.step, first.time) == ("7", 0, "2026-01-05T00:00:00")
    assert "You decide for" in first.messages[0]["content"]
    assert (first.answer, first.tokens, first.usd, first.by) == ("nonsense", 105, 0.0, "rule")
    assert first.unused == first.reason == again.messages[-1]["content"]
    assert "PlanBlock" in str(again.unused)
    assert {each.by for each in asked} == {"rule"}

"""Citizens led by a model: they remember what they heard, from whom, and whom they told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from moothall import (
    AgentToolbox,
    CitizenMemory,
    City,
    Clock,
    HashEmbedder,
    Journal,
    ScriptedModel,
)
from moothall.foundation.errors import DefinitionError
from moothall.memory.bounded import estimate_tokens
from moothall.models.protocol import ModelReply
from moothall.society import (
    CitizenAgent,
    CitizenBlock,
    Column,
    Feed,
    OtherBlock,
    Perception,
    PlanBlock,
    Population,
    Question,
    ReflectionBlock,
    SocialBlock,
    Society,
    Survey,
    View,
    all_blocks,
    citizens,
    make_economy,
    make_people,
)
from moothall.society.kernel.mind import note_talk, recall_events, recent_talks, waiting_speakers
from society.minds import BUSY, Mind

START = "2026-01-05T07:00"


class Stop(Exception):
    pass


class Crier(CitizenAgent):
    """Tells each citizen a word of its own at 08:00."""

    async def forward(self) -> None:
        if self.perceived.time == 8 * 3600:
            for mailbox in self.space.mailboxes:
                if mailbox.id != "crier":
                    word = f"w{mailbox.id}x"
                    say = {"name": "say", "args": {"content": f"Remember, the word is {word}."}}
                    self.send({"to": mailbox.id, "action": say})


def town(count: int, model: Any, **options: Any) -> Society:
    city = City.generate(seed=7, citizens=count)
    made = make_people(city, count, seed=7)
    for each in made:
        each["profile"]["age"] = max(3, each["profile"]["age"])  # all are old enough to talk
    people = citizens(made)
    crier = Crier("crier", name="Crier", blocks=[], toolbox=AgentToolbox(None))
    options = {"seed": 7, "start": START, "model": model, **options}
    return Society([*people, crier], city, **options)


Sent = list[tuple[str, str, str]]


async def evening(
    count: int, sent: Sent, journal: Journal | None = None, *, stop: bool = False
) -> tuple[Sent, Any, Any]:
    """Live from the morning to the evening; return what was said, and what each says it knows."""

    def hear(message: dict[str, Any]) -> dict[str, Any]:
        sent.append((message["from"], message["to"], message["action"]["args"]["content"]))
        return message

    def progress(row: dict[str, Any]) -> None:
        if stop and row["time"].endswith("13:00:00"):
            raise Stop

    async with town(count, Mind(), journal=journal) as society:
        society.intercept(hear)
        recorded: dict[str, Any] = {"run_id": "R", "save_every": 4} if journal else {}
        await society.run(steps=25, step="30min", progress=progress, **recorded)
        asked = {}
        names = {str(each.id): each.name for each in society.agents}
        for number in range(1, count + 1):
            said = await society.interview(number, "What word were you told, and whom told you?")
            asked[str(number)] = json.loads(said)
    return sent, asked, names


def remembers(sent: Sent, asked: Any, names: Any) -> int:
    """How many told in the evening what they were told in the morning, and know whom they told."""
    good = 0
    for id, said in asked.items():
        word = f"w{id}x"
        told = [to for sender, to, text in sent if sender == id and word in text]
        by = [who for _, who, each in said["heard"] if each == word]
        to = [who for who, each in said["said"] if each == word]
        good += (
            bool(told) and "Crier (crier)" in by and {f"{names[t]} ({t})" for t in told} == {*to}
        )
    return good


async def test_mind_tells_in_the_evening_what_it_was_told_in_the_morning() -> None:
    assert remembers(*await evening(12, [])) == 12


async def test_mind_remembers_after_its_process_was_stopped(journal: Journal) -> None:
    sent: Sent = []
    with pytest.raises(Stop):
        await evening(10, sent, journal, stop=True)
    assert remembers(*await evening(10, sent, journal)) == 10


@pytest.mark.long
@pytest.mark.parametrize("stop", (False, True))
async def test_minds_of_a_hundred_citizens_remember(journal: Journal, stop: bool) -> None:
    sent: Sent = []
    if stop:
        with pytest.raises(Stop):
            await evening(100, sent, journal, stop=True)
    assert remembers(*await evening(100, sent, journal)) == 100


async def test_mind_costs_few_tokens_a_day() -> None:
    model, count = Mind(BUSY), 12
    city = City.generate(seed=7, citizens=1000)  # which has several shops
    people = citizens(make_people(city, count, seed=7))
    services = [*make_economy(city, seed=7), Feed()]
    async with Society(people, city, seed=7, model=model, services=services) as society:
        rows = await society.run(days=1)
    tokens = sum(model.chars.values()) / 4 / count
    assert sum(row["fallbacks"] for row in rows) == 0
    assert tokens <= 16_000  # four characters a token
    assert model.calls.keys() >= {"plan", "place", "to_do", "to", "like"}
    assert min(model.offered) >= 2  # one thing to do is no choice


async def test_mind_holds_a_conversation_over_several_steps_which_ends() -> None:
    model = Scribe()
    plan = [{"do": "leisure", "where": "home-1", "from": 0, "until": 86_400}]

    def person(id: int, name: str, do: str = "leisure") -> CitizenAgent:
        status = {"home": "home-1", "plan": [{**plan[0], "do": do}], "now": 0, "day": 0}
        blocks = [SocialBlock(), OtherBlock()]
        return CitizenAgent(id, name, memory=CitizenMemory(status), blocks=blocks)

    ann, ben = person(1, "Ann", "social"), person(2, "Ben")
    ann.status["relations"] = {"2": 850}
    async with Society([ann, ben], model=model) as society:
        await society.step()
        ann.status["plan"] = plan  # from now on, they only answer
        await society.run(steps=12)
    assert [(who, text) for _, who, text in ben.status["talks"]["1"]] == [
        (False, "line 1 of Ann"),
        (True, "line 2 of Ben"),
        (False, "line 3 of Ann"),
        (True, "line 4 of Ben"),
        (False, "line 5 of Ann"),
        (True, "line 6 of Ben"),
    ]
    last = json.loads(model.talks[-1].rpartition("\n")[2])
    assert last["conversations"]["Ann (1)"][:2] == [
        "00:15 Ann (1): line 1 of Ann",
        "00:15 you: line 2 of Ben",
    ]
    assert last["waiting_for_your_answer"] == ["Ann (1)"]
    assert any(each.startswith("Ann (1): ") for each in last["people you know"])
    assert "Ann (1) says to you: line 1 of Ann" in model.talks[1]


async def test_mind_leaves_out_of_a_message_what_was_said_before() -> None:
    greeting = "Good morning! Have you seen the new mill?"
    lines = [greeting, f"{greeting} It has four white sails.", greeting]
    status = {
        "home": "home-1",
        "plan": [{"do": "social", "where": "home-1", "from": 0, "until": 86_400}],
        "relations": {"2": 850},
    }
    model = ScriptedModel([json.dumps({"to": "2", "content": e}) for e in (*lines, greeting)])
    ann = CitizenAgent(1, "Ann", memory=CitizenMemory(status), blocks=[SocialBlock()])
    async with Society([ann, CitizenAgent(2, "Ben", blocks=[])], model=model) as society:
        await society.run(steps=3)
    said = [text for _, _, text in ann.status["talks"]["2"]]
    assert said[:2] == [greeting, "Good morning! It has four white sails."]
    assert said[2] not in lines  # refused twice, and said by rule
    assert "Have you seen the new mill" in str(model.received[-1])


class Scribe(ScriptedModel):
    """Answers whoever waits, with a line that is numbered."""

    def __init__(self) -> None:
        super().__init__(())
        self.talks: list[str] = []

    async def complete(
        self, messages: list[Any], actions: Any = None, schema: Any = None
    ) -> ModelReply:
        asked = messages[-1]["content"]
        if "blocks" in schema["properties"]:
            return ModelReply('{"to_do": "answer", "blocks": {"SocialBlock": "yes"}}')
        self.talks.append(asked)
        who = json.loads(asked.rpartition("\n")[2])["you"]["name"]
        to = schema["properties"]["to"]["enum"][0]
        return ModelReply(json.dumps({"to": to, "content": f"line {len(self.talks)} of {who}"}))


async def test_mind_is_asked_from_the_progress_of_its_run(tmp_path: Path) -> None:
    said: list[str] = []

    async def progress(row: dict[str, Any]) -> None:
        if row["step"] == 1:
            said.append(await society.interview(1, "How are you?"))
            answers = await society.survey(Survey("mood", [Question("answer", "Well?")]))
            said.extend(each.source for each in answers)
            with pytest.raises(DefinitionError, match="running already"):
                await society.step()

    with Journal(tmp_path / "journal") as journal:
        async with Society(3, seed=1, model=Mind(), journal=journal) as society:
            await society.run(steps=3, progress=progress)
    assert said[1:] == ["model"] * 3


async def test_society_agent_cannot_ask_the_others_in_its_step() -> None:
    class Asks(CitizenAgent):
        async def forward(self) -> None:
            await self.space.interview(1, "How are you?")

    async with Society([Asks(1), CitizenAgent(2)]) as society:
        row = await society.run(steps=1, progress=lambda row: None)
        assert row[0]["failures"] == 1
        assert "an agent cannot await a step" in society.failures[0][2]


async def test_reflection_sums_up_the_day_before_and_is_remembered() -> None:
    class Thinks(Mind):
        def _thoughts(self, shown: Any, names: Any) -> Any:
            (event,) = (each for each in shown["day_before"] if "bridge" in each)
            return {"thoughts": [f"I must see it: {event[-21:]}"]}

    async def live(*blocks: Any, model: Any) -> list[Any]:
        memory = CitizenMemory({}, [(0, "It heard from Ann (2): the bridge is closed.")])
        citizen = CitizenAgent(1, memory=memory, blocks=[*blocks])
        async with Society([citizen], model=model) as society:
            await society.run(days=3, step="6h")
        return citizen.memory.stream

    stream = await live(ReflectionBlock(), model=Thinks())
    assert stream[1] == (4, "It thought: I must see it: the bridge is closed.")
    assert len(stream) == 2  # on the third day there is nothing new
    assert len(await live(ReflectionBlock(), model=None)) == 1
    assert len(await live(model=Thinks())) == 1
    people = Population(3, None, [ReflectionBlock()])
    async with Society(people) as society:
        await society.run(steps=2)


def perceived(step: int, **status: Any) -> Perception:
    return Perception(View(step, Clock().at(step)), "1", status)


async def test_mind_knows_when_things_were_in_steps_of_other_lengths_and_from_a_state() -> None:
    class Old(CitizenAgent):
        """Remembers two steps, and that it was spoken to in them."""

        async def forward(self) -> None:
            if (step := self.perceived.step) in (0, 26):
                self.memory.note(step, f"Noted {step}.")
                note_talk(self.status, step, "2", f"Said {step}.", by_self=False)

    async with Society([Old(1)], start="2026-01-05T08:00") as society:
        await society.run(steps=24, step="1h")
        await society.run(steps=4, step="15min")
        state = society.state_dict()
    old = Old(1)
    async with Society([old], start="2026-01-05T08:00") as society:
        society.load_state_dict(state)
        await society.run(steps=2, step="2h")
        seen = old.perceived
    assert str(seen.clock) == "Tuesday 2026-01-06 11:00:00"
    assert recall_events(old.memory.stream, seen, "", 200) == [
        "yesterday 08:00: Noted 0.",
        "08:30: Noted 26.",
    ]
    assert recent_talks(seen) == {"2": ["08:30 2: Said 26."]}
    assert waiting_speakers(seen, 3) == []  # it has waited for two and a half hours


def test_mind_shows_what_matters_within_its_tokens() -> None:
    stream: list[Any] = [(step, f"It paid {step} for bread.") for step in range(150)]
    stream[3] = (3, "It heard from Ann (2): the bridge is closed.")
    stream[5] = (5, "Its plan broke: park-1 is closed; now leisure.")
    stream[149] = {"role": "user", "content": "The bridge was painted."}
    found = recall_events(stream, perceived(150), "Which way over the bridge?", 200)
    assert found[0] == "yesterday 00:45: It heard from Ann (2): the bridge is closed."
    assert any("painted" in each for each in found)
    assert 5 < len(found) < 20
    assert sum(map(estimate_tokens, found)) <= 200
    assert recall_events(stream, perceived(150), "bridge", 0) == []
    assert recall_events([], perceived(150), "bridge", 100) == []


def test_embedder_finds_by_meaning_what_words_do_not() -> None:
    stream = [(step, f"It bought {step} loaves.") for step in range(40)]
    stream[2] = (2, "Bridges were painted.")
    words = recall_events(stream, perceived(50), "a bridge", 40)
    meant = recall_events(stream, perceived(50), "a bridge", 40, HashEmbedder())
    assert not any("painted" in each for each in words)
    assert any("painted" in each for each in meant)


async def test_embedder_of_a_toolbox_is_used_in_a_society() -> None:
    class Counting(HashEmbedder):
        asked = 0

        def embed(self, texts: list[str]) -> list[list[float]]:
            type(self).asked += 1
            return super().embed(texts)

    toolbox = AgentToolbox(Mind(), embedder=Counting())
    memory = CitizenMemory({"home": "home-1"}, [(0, "It heard from Ann (2): hello.")])
    citizen = CitizenAgent(1, toolbox=toolbox, memory=memory, blocks=[PlanBlock()])
    async with Society([citizen]) as society:
        await society.step()
    assert Counting.asked == 1


async def test_mind_keeps_more_events_unless_told_how_many() -> None:
    led, told = (CitizenAgent(id, memory=CitizenMemory(), blocks=[]) for id in (1, 2))
    told.memory = CitizenMemory(most=60)
    async with Society([led, told], model=Mind()):
        assert (led.memory.most, told.memory.most) == (200, 60)
    ruled = CitizenAgent(1, memory=CitizenMemory(), blocks=[])
    async with Society([ruled]):
        assert ruled.memory.most == 50


class Heads(Mind):
    """Keeps the first message of each call, by what it asks for."""

    def __init__(self) -> None:
        super().__init__(BUSY)
        self.heads: dict[str, set[str]] = {}
        self.shown: list[str] = []

    async def complete(
        self, messages: list[Any], actions: Any = None, schema: Any = None
    ) -> ModelReply:
        self.heads.setdefault(",".join(schema["properties"]), set()).add(messages[0]["content"])
        self.shown.append(messages[1]["content"])
        return await super().complete(messages, actions, schema)


async def test_mind_prompt_begins_with_the_same_for_all_and_says_what_numbers_mean() -> None:
    model, count = Heads(), 12
    city = City.generate(seed=7, citizens=1000)
    services = [*make_economy(city, seed=7), Feed()]
    people = citizens(make_people(city, count, seed=7))
    people[0].status.update(work=None, jobless=0, savings=4_200_042)
    people[0].status["profile"]["age"] = 30
    async with Society(people, city, seed=7, model=model, services=services) as society:
        await society.run(days=1, step="30min")
        survey = Survey("evening", [Question("text", "How are you?")])
        await society.survey(survey)
    assert model.heads.keys() >= {"to,content", "place", "like,follow,post,topic", "text"}
    for asked, heads in model.heads.items():
        if not asked.startswith("plan"):  # who has work may plan it
            assert len(heads) == 1, asked
    heads = [each for some in model.heads.values() for each in some]
    assert all("Money is in cents" in each for each in heads)
    jobless = [each for each in model.shown if '"jobless": "for ' in each]
    assert any('"jobless": "for 1 days"' in each for each in jobless)
    assert any('"savings": 4200042' in each for each in jobless)
    assert not any('"purse"' in each or '"jobless": -1' in each for each in model.shown)


class HealthBlock(CitizenBlock):
    """Keeps whether the citizen is ill."""

    columns: ClassVar[dict[str, Column]] = {"ill": Column("uint8", words=(None, "with the flu"))}
    in_prompts = ("ill",)


@pytest.mark.parametrize("blocks", ((HealthBlock,), ()), ids=("block", "without it"))
async def test_mind_is_shown_the_entries_that_a_block_states(blocks: tuple[Any, ...]) -> None:
    model = Heads()
    city = City.generate(seed=7, citizens=100)
    people = citizens(
        make_people(city, 2, seed=7), lambda: [*all_blocks(), *(each() for each in blocks)]
    )
    for each in people:
        each.status["ill"] = "with the flu"
    async with Society(people, city, seed=7, model=model) as society:
        await society.run(days=1, step="4h")
    assert model.shown
    assert all(('"ill": "with the flu"' in each) == bool(blocks) for each in model.shown)


def test_mind_remembers_who_told_it_first_however_many_say_the_same_later() -> None:
    stream = [(28, "It heard from somebody: The mill is sold.")]
    stream += [(40 + at, f"It heard from Ann ({at}): The mill is sold.") for at in range(40)]
    found = recall_events(stream, perceived(88), "Who told you first of the mill?", 300)
    assert found[0] == "07:00: It heard from somebody: The mill is sold."
    assert found[-1].endswith("Ann (39): The mill is sold.")


async def test_memory_of_a_citizen_with_a_model_forgets_what_weighs_least() -> None:
    sold = (0, "It heard from Ben (2): The mill is sold.")
    ann = CitizenAgent(1, memory=CitizenMemory({}, most=20))
    async with Society([ann], model=ScriptedModel([])):
        memory = ann.memory
        memory.note(*sold)
        for step in range(1, 100):
            memory.note(step, f"It sat on bench {step}.")
        assert memory.stream == [sold, *((n, f"It sat on bench {n}.") for n in range(81, 100))]
        news = [(n, f"It heard from Cy (3): House {n} burns.") for n in range(100, 114)]
        for each in news:
            memory.note(*each)
        for step in range(114, 150):
            memory.note(step, "It heard from Di (4): Hello!")
        # The same words again weigh less each time; other words are not forgotten for them.
        assert memory.stream[:15] == [sold, *news]
        assert memory.stream[-1] == (149, "It heard from Di (4): Hello!")
        for step in range(150, 180):
            memory.note(step, f"It heard from Ed (5): Street {step} is closed.")
        # What is important is forgotten too, where as important things have come since.
        assert memory.stream[0] == (160, "It heard from Ed (5): Street 160 is closed.")

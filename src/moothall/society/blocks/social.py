"""Social life: a citizen's messages, and the relations and opinions that they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall import BlockParams, ConfigError, action
from moothall.build import UnreadableText, object_schema
from moothall.society.arrays import Numbers, WholeNumber, larger, where
from moothall.society.blocks.citizen_block import now_of
from moothall.society.blocks.columns import ACTS, act_code
from moothall.society.blocks.talk_block import TalkBlock, TalkParams
from moothall.society.blocks.ties import KIN, KIN_BIT, STRENGTH, Ties, code_of, friend_columns
from moothall.society.clock import DAY_S
from moothall.society.columns.column import Column, fill
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.mind import HEARD_FROM, SAID_TO, note_talk, waiting_speakers
from moothall.society.kernel.perception import Perception
from moothall.society.kernel.wants import AGENT_ID

MAX_MESSAGE: Final = 280  # the characters of a message at most
_SAME_WORDS: Final = 8  # in a row that were said before make a sentence one that repeats
_FEW_WORDS: Final = 5  # anybody may say again what has fewer
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+")
_MAX_CHOICES: Final = 20  # the people that a model may choose from, at most
_MEETING_ACTS: Final = Numbers(map(act_code, ("leisure", "social")), "uint8")
"""The act of who meets nobody, and of who meets somebody."""


def _is_repeated(sentence: str, earlier: list[str]) -> bool:
    words = sentence.split()
    count = min(_SAME_WORDS, max(len(words), _FEW_WORDS))
    stretches = [f" {' '.join(words[i : i + count])} " for i in range(len(words) - count + 1)]
    texts = [f" {' '.join(text.split())} " for text in earlier]
    return any(stretch in text for text in texts for stretch in stretches)


def relation_after(relation: WholeNumber, contact: int) -> WholeNumber:
    """Return a relation, 0 … 1000, moved `contact` thousandths of the way to 1000, rounded up."""
    return relation - (relation - 1000) * contact // 1000


def faded_relation(relation: WholeNumber, fading: int) -> WholeNumber:
    """Return a relation less `fading` thousandths of it (rounded up): its loss in a day."""
    return relation + -relation * fading // 1000


class SocialBlockParams(TalkParams):
    """Whom a citizen meets, and how relations and opinions change."""

    here: int = Field(default=600, ge=0, le=1000, description="meets who is there, of a thousand")
    contact: int = Field(
        default=2, ge=1, le=1000, description="closer by a quarter of an hour, thousandths"
    )
    fading: int = Field(default=1, ge=0, le=1000, description="less by a day, thousandths")
    friends: int = Field(default=150, ge=1, le=10_000, description="relations at most")
    bound: int = Field(default=400, ge=0, le=2000, description="bound of confidence")
    pull: int = Field(default=100, ge=0, le=1000, description="pull of an opinion, thousandths")
    replies: int = Field(
        default=3, ge=0, le=100, description="what a model says in a conversation, at most"
    )


class SocialBlock(TalkBlock):
    """Chooses a person, writes a short message, hears messages, and changes relations and opinions.

    The recipient is a person at the same place, uniformly drawn, or a friend, in proportion to the
    relation, as AgentSociety's citizens choose their friend (Piao et al. 2025, arXiv:2502.08691).
    The message is a greeting and an opinion on the topic of most interest. A quarter of an hour of
    contact closes 2 thousandths of a relation's distance to 1000, for writer and hearer: half way
    after some 60 hours, to the closest after some 190, as a casual friendship takes about 50 hours
    and a close one more than 200 (Hall 2019, "How many hours does it take to make a friend?",
    Journal of Social and Personal Relationships 36). The first step of a day takes
    a thousandth, and 1 at least, except from kin and from relations heard in it: neglected ties
    decay, those of kin do not (Burt 2000, "Decay functions", Social Networks 22; Roberts, Dunbar
    2011, "The costs of family and friends", Evolution and Human Behavior 32). So who was met once
    is forgotten after two days, a friend after more than a year. Of more than 150 relations the
    weakest that is no kin is dropped (Dunbar 1992, Journal of Human Evolution 22). A heard opinion
    moves the citizen's own by bounded confidence, `opinion_after` (Deffuant, Neau, Amblard,
    Weisbuch 2000, "Mixing beliefs among interacting agents", Advances in Complex Systems 3).
    With a model, its answer has the recipient and the message. Who is younger than `youngest` is in
    company without a word, and answers nobody.
    """

    description = "Meets people, writes messages and hears them"
    actions: dict[str, str] = {"meet": "Find somebody and say something"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = SocialBlockParams
    params: SocialBlockParams
    does: ClassVar[tuple[str, ...]] = ("social",)
    status_keys: ClassVar[tuple[tuple[str, ...], ...]] = (
        *TalkBlock.status_keys,
        ("relations",),
        ("kin",),
    )

    async def before_forward(self) -> None:
        """Handle the received messages, and let relations fade at the start of a day."""
        messages = self.perceived.messages
        if messages and self._is_model_led:
            for message in messages:
                if message["action"]["name"] == "say":
                    self._remember(message["from"], message["action"]["args"])
        self.before_rows(self.own_row())

    def before_rows(self, rows: Rows) -> None:
        """Do `before_forward` for rows."""
        params = self.params
        for hearers, sender, topic, opinion in rows.heard_in_turn():
            self._come_closer(hearers, sender, rows.lasted)
            self.topics(hearers).hear(topic, opinion, params.bound, params.pull)
        day, last_faded = now_of(rows) // DAY_S, rows["faded"]
        for fading in rows.only((last_faded != day) & (last_faded >= 0)):
            Ties(fading).fade(lambda close: faded_relation(close, params.fading))
        rows["faded"] = day

    def step_rows(self, rows: Rows) -> None:
        """Let those who are old enough say something to a person there or to a friend."""
        rows["act"] = act_code("social")
        for talkers in rows.only(self.is_young(rows) != True):  # noqa: E712 - of arrays, too
            self._meet(talkers)

    def _meet(self, rows: Rows) -> None:
        """Let rows say something to a person there or to a friend; without either, have leisure."""
        count, own_index, person_at = rows.present()
        other_people, ties = count - 1, Ties(rows)
        meets_here = (other_people > 0) & (rows.below(1000, "social.here") < self.params.here)
        total = ties.total(meets_here != True)  # noqa: E712 - of arrays, too
        meets_here = meets_here | ((other_people > 0) & (total == 0))
        index = rows.below(larger(other_people, 1), "social.whom")
        person_here = person_at(where(meets_here, index + (index >= own_index), 0))
        writes = (meets_here != True) & (total > 0)  # noqa: E712
        friend = ties.friend_at(rows.below(larger(total, 1), "social.friend"), writes)
        meets = meets_here | writes
        rows["act"] = _MEETING_ACTS[meets + 0]
        topics = self.topics(rows)
        topic = topics.main_topic()
        text = topics.message(rows.below(4, "social.greeting"), topic)
        utterance = (text, topics.word(topic), topics.opinion(topic))
        self._say(rows, where(meets_here, person_here, friend), *utterance, where=meets)

    def _say(
        self, rows: Rows, to: Any, text: Any, topic: Any, opinion: Any, where: Any = True
    ) -> None:
        """Let some of the rows say something."""
        rows.say(to, text, topic, opinion, where)
        self._come_closer(rows, to, rows.seconds, where)

    def _come_closer(self, rows: Rows, to: Any, seconds: int, *where: object) -> None:
        """Let relations come closer by contact in a step of `seconds`."""
        contact = min(1000, max(1, self.params.contact * seconds // 900))
        ties = Ties(rows)
        ties.update(to, lambda relation: relation_after(relation, contact), *where)

    # -- in columns --------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        """The block's columns."""
        return {**super().columns, **friend_columns(self.params.friends)}

    def to_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write relations, opinions and interests of a row into a status."""
        super().to_status(population, row, status)
        codes, ties = (population.arrays[name][row].tolist() for name in ("friends", "friendship"))
        strengths = {
            population.decode(AGENT_ID, code - 1 if code > 0 else code): strength
            for code, strength in zip(codes, ties, strict=True)
            if code
        }
        status["relations"] = {id: strength & STRENGTH for id, strength in strengths.items()}
        status.pop("kin", None)
        if kin := {id: KIN[each >> KIN_BIT] for id, each in strengths.items() if each > STRENGTH}:
            status["kin"] = kin

    def from_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write relations, opinions and interests of a status into the columns.

        Raises:
            ConfigError: a topic is not one of the block's, or there are too many relations
        """
        super().from_status(population, row, status)
        relations = status.get("relations")
        if relations is None:
            return
        codes, strengths = population.arrays["friends"], population.arrays["friendship"]
        if len(relations) > self.params.friends:
            raise ConfigError(
                f"citizen {population.id_of(row)} has {len(relations)} relations, and `friends` of "
                f"its SocialBlockParams is {self.params.friends}"
            )
        friends = [code_of(population.number_of(id)) for id in relations]
        fill(codes, row, friends)
        kin = {id: KIN.index(each) << KIN_BIT for id, each in status.get("kin", {}).items()}
        fill(strengths, row, [strength | kin.get(id, 0) for id, strength in relations.items()])

    # -- as a full agent ---------------------------------------------------------------------------

    @property
    def _is_model_led(self) -> bool:
        """Whether a model leads the citizen; by rule, conversations are not kept."""
        return self.llm is not None and self.params.by_model

    def _remember(self, sender: str, args: Mapping[str, object]) -> None:
        """Remember what a citizen led by a model hears, and from whom."""
        content = args.get("content")
        if isinstance(content, str):
            content = content[:MAX_MESSAGE]
            note_talk(self.status, self.perceived.step, sender, content, by_self=False)
            self.note(f"{HEARD_FROM}{self.perceived.label(sender)}: {content}")

    @property
    def _waiting_for_answer(self) -> list[str]:
        """Who waits for an answer of the citizen; nobody while it sleeps."""
        item = self.item
        if not self._is_model_led or self.too_young or (item is not None and item["do"] == "sleep"):
            return []
        return waiting_speakers(self.perceived, self.params.replies)

    def offer(self, context: Perception) -> str:
        """Return whom it would talk to or answer; empty if the plan and nobody asks for it."""
        offer = super().offer(context)
        if not isinstance(context, Perception):
            return offer
        names = ", ".join(map(context.label, self._waiting_for_answer))
        return f"answer {names}" if names else offer

    async def forward(self) -> Any:
        """Write to a person; return the act of this step."""
        row = self.own_row()
        if self.too_young or (utterance := await self._say_by_model()) is None:
            self.step_rows(row)
        else:
            row["act"] = act_code("social")
            topics = self.topics(row)
            topic = topics.main_topic()
            to, content = utterance
            opinion = topics.opinion(topic)
            self._say(row, row.population.number_of(to), content, topics.word(topic), opinion)
        return ACTS[row["act"]]

    async def _say_by_model(self) -> tuple[str, str] | None:
        if self.llm is None:
            return None
        relations = self.status.get("relations", {})
        closest = sorted(relations, key=lambda id: -relations[id])[: _MAX_CHOICES // 2]
        waiting, here = self._waiting_for_answer, self.perceived.here[: _MAX_CHOICES // 2]
        names = list(dict.fromkeys([*waiting, *closest, *here]))
        if not names:
            return None
        answer = await self.decide(
            "Choose somebody to say something to, by the id in brackets, and what; go on with what "
            "you talk about, and answer who waits for it.",
            object_schema(
                to={"enum": names, "title": 'an id of "people"'},
                content={"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE},
            ),
            self._without_repeats,
            people=[self._person_json(id, relations.get(id, 0)) for id in names],
            waiting_for_your_answer=[*map(self.perceived.label, waiting)],
        )
        return None if answer is None else (answer["to"], answer["content"])

    def _without_repeats(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer without what was said before: a small model repeats the nearest line."""
        talks: dict[str, list[list[Any]]] = self.status.get("talks") or {}
        earlier = [text for lines in talks.values() for _, _, text in lines]
        sentences = _SENTENCE_END.split(answer["content"])
        repeated = [each for each in sentences if _is_repeated(each, earlier)]
        content = " ".join(each for each in sentences if each not in repeated)
        if repeated and len(content.split()) < _FEW_WORDS:
            raise UnreadableText(
                f'repeats "{repeated[0]}" in "content": say something that was not said yet'
            )
        return {**answer, "content": content}

    def _person_json(self, id: str, relation: int) -> dict[str, Any]:
        name = self.perceived.name_of and self.perceived.name_of(id)
        return {"id": id, **({"name": name} if name else {}), "relation": relation}

    def say(self, to: str, content: str, topic: str, opinion: int) -> None:
        """Send a message, and remember it."""
        args: dict[str, object] = {"content": content}
        if topic:
            args |= {"topic": topic, "opinion": opinion}
        if self.agent.space is not None:
            self.agent.send({"to": to, "action": {"name": "say", "args": args}})
        receiver = to
        if self._is_model_led:
            note_talk(self.status, self.perceived.step, to, content, by_self=True)
            receiver = self.perceived.label(to)
        self.note(f"{SAID_TO}{receiver}: {content}")

    @action
    async def write(self, to: str, content: str) -> None:
        """Write a message to another citizen.

        Args:
            to: the citizen's id
            content: what it says, at most 280 characters
        """
        row = self.own_row()
        self._say(row, row.population.number_of(to), content[:MAX_MESSAGE], "", 0)

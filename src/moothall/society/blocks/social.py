"""Social life: a citizen's messages, and the relations and opinions that they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall.actions import action
from moothall.actions.signature.schema import object_schema
from moothall.agents.params import BlockParams
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import UnreadableText
from moothall.foundation.text import copied_stretch
from moothall.society.arrays import np
from moothall.society.blocks.block import now_of
from moothall.society.blocks.columns import code
from moothall.society.blocks.talk import TalkBlock, TalkParams, message_text
from moothall.society.blocks.ties import KIN, KIND, STRENGTH, Ties, code_of, friend_columns
from moothall.society.clock import DAY_S
from moothall.society.columns.column import Column, fill
from moothall.society.columns.lists import turns
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows
from moothall.society.kernel.mind import HEARD_FROM, SAID_TO, note_talk, waiting
from moothall.society.kernel.perception import Perception
from moothall.society.kernel.wants import PARTY

LONGEST: Final = 280  # the characters of a message at most
_SAME_WORDS: Final = 8  # in a row that were said before make a sentence one that repeats
_FEW_WORDS: Final = 5  # anybody may say again what has fewer
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+")
_SHOWN: Final = 20  # the people that a model may choose from, at most


def _is_repeated(sentence: str, before: list[str]) -> bool:
    words = min(_SAME_WORDS, max(len(sentence.split()), _FEW_WORDS))
    return bool(copied_stretch(sentence, before, words))


def relation_after(relation: Any, contact: int) -> Any:
    """Return a relation, 0 … 1000, moved `contact` thousandths of the way to 1000, rounded up."""
    return relation - (relation - 1000) * contact // 1000


def faded(relation: Any, fading: int) -> Any:
    """Return a relation less `fading` thousandths of it (rounded up): its loss in a day."""
    return relation + -relation * fading // 1000


def opinion_after(mine: Any, other: Any, bound: int, pull: int) -> Any:
    """Return an opinion, −1000 … 1000, after hearing another by bounded confidence."""
    apart = other - mine  # if at most `bound`, it moves by `pull` thousandths, rounded towards 0
    step = abs(apart) * pull // 1000 * (abs(apart) <= bound)
    return mine + step * ((apart > 0) * 2 - 1)


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

    async def before_forward(self) -> None:
        """Handle the received messages, and let relations fade at the start of a day."""
        status = self.status
        day = self.now // DAY_S
        heard: set[str] = set()
        for message in self.perceived.messages:
            if message["action"]["name"] == "say":
                heard.add(message["from"])
                self._remember(message["from"], message["action"]["args"])
                self._hear(message["from"], message["action"]["args"])
        before, status["faded"] = status.get("faded", -1), day
        if before not in (-1, day):
            relations = status.get("relations", {})
            kin = status.get("kin", {})
            for id, relation in [*relations.items()]:
                if id not in heard and id not in kin:
                    relations[id] = faded(relation, self.params.fading)
                    if not relations[id]:
                        del relations[id]  # it is forgotten

    # -- in columns --------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        """The block's columns."""
        return {**super().columns, **friend_columns(self.params.friends)}

    def to_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write relations, opinions and interests of a row into a status."""
        super().to_status(population, row, status)
        codes, close = (population.arrays[name][row].tolist() for name in ("friends", "friendship"))
        known = {
            population.decoded(PARTY, code - 1 if code > 0 else code): strength
            for code, strength in zip(codes, close, strict=True)
            if code
        }
        status["relations"] = {id: strength & STRENGTH for id, strength in known.items()}
        status.pop("kin", None)
        if kin := {id: KIN[each >> KIND] for id, each in known.items() if each > STRENGTH}:
            status["kin"] = kin

    def from_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write relations, opinions and interests of a status into the columns.

        Raises:
            ConfigError: a topic is not one of the block's, or there are too many relations
        """
        super().from_status(population, row, status)
        given = status.get("relations")
        if given is None:
            return
        codes, close = population.arrays["friends"], population.arrays["friendship"]
        if len(given) > self.params.friends:
            raise ConfigError(
                f"citizen {population.id_of(row)} has {len(given)} relations, and `friends` of its "
                f"SocialBlockParams is {self.params.friends}"
            )
        friends = [code_of(population.number_of(id)) for id in given]
        fill(codes, row, friends)
        kin = {id: KIN.index(each) << KIND for id, each in status.get("kin", {}).items()}
        fill(close, row, [strength | kin.get(id, 0) for id, strength in given.items()])

    def before_rows(self, rows: Rows) -> None:
        """Do `before_forward` for rows."""
        heard = rows.heard()
        if heard is not None:
            at, sender, topic, opinion, _ = heard
            for part in turns(at):
                self._hear_rows(rows, at[part], sender[part], topic[part], opinion[part])
        day = now_of(rows) // DAY_S
        faded_on = rows["faded"]
        fades = (faded_on != day) & (faded_on >= 0)
        if fades.any():
            self._fade_rows(rows, np.flatnonzero(fades), heard)
        faded_on[...] = day

    def _hear_rows(self, rows: Rows, at: Any, sender: Any, topic: Any, opinion: Any) -> None:
        """Handle one message for each of these rows."""
        seconds = rows.moment.view.lasted
        self._closer_rows(Ties(rows, at), np.arange(len(at)), sender, seconds)
        params = self.params
        number = self.topic_rows(rows)[topic]
        of = np.flatnonzero(number >= 0)
        at, number = at[of], number[of]
        mine = rows["opinions"][at, number].astype(np.int64)  # NO_OPINION is beyond every bound
        rows["opinions"][at, number] = opinion_after(mine, opinion[of], params.bound, params.pull)

    def _closer_rows(self, ties: Ties, at: Any, who: Any, seconds: int) -> None:
        """Do `_closer` at some positions of `ties`, each once."""
        ties.closer(at, code_of(who), lambda relation: self._after(relation, seconds))

    def _fade_rows(self, rows: Rows, at: Any, heard: Any) -> None:
        """Let relations fade, except those with the senders of heard messages."""
        fading = self.params.fading
        who, to = at[:0], at[:0]
        if heard is not None:
            fades = np.zeros(len(rows), bool)
            fades[at] = True
            mine = fades[heard[0]]
            who, to = heard[0][mine], code_of(heard[1][mine])
        Ties(rows, at).fade(lambda close: faded(close, fading), Ties(rows, who), to)

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        count, mine, present = rows.present()
        others = np.maximum(count - 1, 0)
        here = (others > 0) & (rows.below(1000, "social.here") < self.params.here)
        rest = np.flatnonzero(~here)
        ties, total = Ties(rows), np.zeros(len(rows), np.int64)
        total[rest] = Ties(rows, rest).total()
        here |= (others > 0) & (total == 0)
        index = rows.below(np.maximum(others, 1), "social.whom")
        index += index >= mine
        to = np.full(len(rows), -1, np.int64)
        if here.any():
            to = (present(index * here).astype(np.int64) + 1) * here - 1
        friend = np.flatnonzero(~here & (total > 0))
        if len(friend):
            seed = rows.population.seed
            share = belows(total[friend], seed, rows.ids[friend], rows.step, "social.friend")
            chosen = ties.choice(friend, share)
            to[friend] = np.where(chosen > 0, chosen - 1, chosen)
        young = self.young_rows(rows)
        meets = here | (total > 0)
        some = np.flatnonzero(meets & ~young)
        rows["act"] = np.where(meets | young, code("social"), code("leisure")).astype(np.uint8)
        if not len(some):
            return
        topic = self.main_topic_rows(rows)
        opinion = self.opinion_rows(rows, topic)
        text = self.text_rows(rows, rows.below(4, "social.greeting"), topic, opinion)
        number = self.word_rows(rows, topic)
        rows.say(to, text, number, opinion, where=some)
        self._closer_rows(ties, some, to[some], rows.seconds)

    # -- as a full agent ---------------------------------------------------------------------------

    def _hear(self, sender: str, args: Mapping[str, Any]) -> None:
        self._closer(sender, self.perceived.view.lasted)
        topic, opinion = args.get("topic"), args.get("opinion")
        opinions = self.status.setdefault("opinions", {})
        if isinstance(topic, str) and topic in opinions and type(opinion) is int:
            params = self.params
            opinion = max(-1000, min(1000, opinion))
            opinions[topic] = opinion_after(opinions[topic], opinion, params.bound, params.pull)

    @property
    def _led(self) -> bool:
        """Whether a model leads the citizen; by rule, conversations are not kept."""
        return self.llm is not None and self.params.by_model

    def _remember(self, sender: str, args: Mapping[str, Any]) -> None:
        """Remember what a citizen led by a model hears, and from whom."""
        content = args.get("content")
        if self._led and isinstance(content, str):
            content = content[:LONGEST]
            note_talk(self.status, self.perceived.step, sender, content, mine=False)
            self.note(f"{HEARD_FROM}{self.perceived.label(sender)}: {content}")

    @property
    def _waiting(self) -> list[str]:
        """Who waits for an answer of the citizen; nobody while it sleeps."""
        item = self.item
        if not self._led or self.too_young or (item is not None and item["do"] == "sleep"):
            return []
        return waiting(self.perceived, self.params.replies)

    def offer(self, context: Any) -> str:
        """Return whom it would talk to or answer; empty if the plan and nobody asks for it."""
        would = super().offer(context)
        if not isinstance(context, Perception):
            return would
        names = ", ".join(map(context.label, self._waiting))
        return f"answer {names}" if names else would

    def _closer(self, id: str, seconds: int) -> None:
        relations = self.status.setdefault("relations", {})
        relations[id] = self._after(relations.get(id, 0), seconds)
        if len(relations) > self.params.friends:
            kin = self.status.get("kin", {})
            others = [each for each in relations if each != id]
            gone = min(others, key=lambda each: relations[each] + 1024 * (each in kin))
            del relations[gone]
            kin.pop(gone, None)

    def _after(self, relation: Any, seconds: int) -> Any:
        """Return a relation, or an array of them, after contact in a step of `seconds`."""
        contact = min(1000, max(1, self.params.contact * seconds // 900))
        return relation_after(relation, contact)

    async def forward(self) -> str | None:
        """Write to a person; return the recipient's id, or None."""
        self.act("social")
        if self.too_young:
            return None
        to, text = await self._by_model() or (self._receiver(), "")
        if to is None:
            self.act("leisure")
            return None
        interests = self.interests
        topic = max(interests, key=interests.__getitem__, default="")
        opinion = self.opinion(topic)
        if not text:
            text = message_text(self.draws.below(4, "social.greeting"), topic, opinion)
        self._send(to, text, topic, opinion)
        return to

    def _receiver(self) -> str | None:
        """Return the id of a person here or of a friend; None if there is neither."""
        draws = self.draws
        present, me = self.perceived.present, str(self.agent.id)
        relations: dict[str, int] = self.status.get("relations", {})
        friends = [(id, relation) for id, relation in relations.items() if relation > 0]
        others = len(present) - (me in present)
        if others and (not friends or draws.below(1000, "social.here") < self.params.here):
            index = draws.below(others, "social.whom")
            if me in present and index >= present.index(me):
                index += 1
            return present[index]
        if not friends:
            return None
        return friends[draws.choice([each[1] for each in friends], "social.friend")][0]

    async def _by_model(self) -> tuple[str, str] | None:
        if self.llm is None:
            return None
        relations = self.status.get("relations", {})
        closest = sorted(relations, key=lambda id: -relations[id])[: _SHOWN // 2]
        asked, here = self._waiting, self.perceived.here[: _SHOWN // 2]
        names = list(dict.fromkeys([*asked, *closest, *here]))
        if not names:
            return None
        answer = await self.decide(
            "Choose somebody to say something to, by the id in brackets, and what; go on with what "
            "you talk about, and answer who waits for it.",
            object_schema(
                to={"enum": names, "title": 'an id of "people"'},
                content={"type": "string", "minLength": 1, "maxLength": LONGEST},
            ),
            self._new_to_say,
            people=[self._person(id, relations.get(id, 0)) for id in names],
            waiting_for_your_answer=[*map(self.perceived.label, asked)],
        )
        return None if answer is None else (answer["to"], answer["content"])

    def _new_to_say(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer without what was said before: a small model repeats the nearest line."""
        talks: dict[str, list[list[Any]]] = self.status.get("talks") or {}
        before = [text for lines in talks.values() for _, _, text in lines]
        said = _SENTENCE_END.split(answer["content"])
        old = [each for each in said if _is_repeated(each, before)]
        content = " ".join(each for each in said if each not in old)
        if old and len(content.split()) < _FEW_WORDS:
            raise UnreadableText(
                f'repeats "{old[0]}" in "content": say something that was not said yet'
            )
        return {**answer, "content": content}

    def _person(self, id: str, relation: int) -> dict[str, Any]:
        name = self.perceived.name_of and self.perceived.name_of(id)
        return {"id": id, **({"name": name} if name else {}), "relation": relation}

    def _send(self, to: str, content: str, topic: str, opinion: int) -> None:
        args: dict[str, Any] = {"content": content}
        if topic:
            args |= {"topic": topic, "opinion": opinion}
        if self.agent.space is not None:
            self.agent.send({"to": to, "action": {"name": "say", "args": args}})
        self._closer(to, self.perceived.seconds)
        whom = to
        if self._led:
            note_talk(self.status, self.perceived.step, to, content, mine=True)
            whom = self.perceived.label(to)
        self.note(f"{SAID_TO}{whom}: {content}")

    @action
    async def write(self, to: str, content: str) -> None:
        """Write a message to another citizen.

        Args:
            to: the citizen's id
            content: what it says, at most 280 characters
        """
        self._send(to, content[:LONGEST], "", 0)

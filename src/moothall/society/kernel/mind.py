"""What a citizen's model is shown of the citizen: itself, whom it knows, and what it remembers."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from moothall import Embedder
from moothall.memory import estimate_tokens
from moothall.society.kernel.perception import Perception, item_in_words

SAID_TO: Final = "It said to "
"""How the event begins that it has said something."""
HEARD_FROM: Final = "It heard from "
PLAN_BROKE: Final = "Its plan broke: "
THOUGHT: Final = "It thought: "
_IMPORTANCE: Final = ((SAID_TO, 1.0), (HEARD_FROM, 1.0), (THOUGHT, 1.0), (PLAN_BROKE, 0.6))
_DEFAULT: Final = 0.3  # the importance of any other event
_HALF_LIFE_S: Final = 12 * 3600  # an event's recency halves in this time
_MAX_PEOPLE: Final = 5  # the people that it knows best are shown
_MAX_ITEMS: Final = 4  # the next items of its plan are shown
_LEVELS: Final = ((800, "very close"), (500, "a friend"), (200, "an acquaintance"), (1, "hardly"))
_WORD: Final = re.compile(r"[^\W_]{3,}")


def closeness(relation: int) -> str:
    """Return how well a citizen knows another, in words."""
    return next((words for least, words in _LEVELS if relation >= least), "not at all")


_RULES_ONLY: Final = ("licence", "cars", "bicycles", "rents")


def profile_of(status: dict[str, Any]) -> dict[str, Any]:
    """Return what of a citizen's profile is said of it: not what rules of ways and rents read."""
    profile = status.get("profile") or {}
    return {name: value for name, value in profile.items() if name not in _RULES_ONLY}


async def prompt_context(agent: Any, subject: str) -> dict[str, Any]:
    """Return what an agent's model is shown besides the perception; the `subject` comes first."""
    perceived: Perception = agent.perceived
    status = agent.memory.status
    state_keys = (
        *("home", "work", "school", "needs", "money", "savings", "opinions"),
        *agent.memory_config,
        *(name for block in agent.blocks for name in getattr(block, "in_prompts", ())),
    )
    context: dict[str, object] = {
        "you": {
            "name": agent.name or f"citizen {agent.id}",
            **({"profile": profile} if (profile := profile_of(status)) else {}),
            **{key: status[key] for key in state_keys if status.get(key) is not None},
            **jobless_time(status, perceived),
        }
    }
    relations: dict[str, int] = status.get("relations") or {}
    if people := best_known(perceived, relations, status.get("kin") or {}):
        context["people you know"] = people
    if plan := (status.get("plan") or [])[(status.get("now") or 0) + 1 :]:
        context["your plan then"] = [item_in_words(item) for item in plan[:_MAX_ITEMS]]
    if talk := recent_talks(perceived):
        context["conversations"] = talk
    tokens = getattr(agent.params, "memory_tokens", 0)
    embedder = getattr(agent.toolbox, "embedder", None)
    recall_args = (agent.memory.stream, perceived, subject, tokens)
    if embedder is None:
        events = recall_events(*recall_args)
    else:  # an embedder may take long
        vectors = vars(agent.memory).setdefault("_vectors", {})
        events = await asyncio.to_thread(recall_events, *recall_args, embedder, vectors)
    if events:
        context["you remember"] = events
    return context


def jobless_time(status: Mapping[str, object], perceived: Perception) -> dict[str, str]:
    """Return since when a citizen seeks work, in words; nothing if it seeks none."""
    since = status.get("jobless", -1)
    if not isinstance(since, int) or since == -1 or status.get("work") or perceived.clock is None:
        return {}
    return {"jobless": f"for {max(0, perceived.clock.day - since)} days"}


def best_known(perceived: Perception, relations: dict[str, int], kin: dict[str, str]) -> list[str]:
    """Return whom a citizen knows best, by name, and how well, or what they are to it."""
    best = sorted(relations, key=lambda id: -relations[id])[:_MAX_PEOPLE]
    relation = {id: f"your {kin[id]}" if id in kin else closeness(relations[id]) for id in best}
    return [f"{perceived.label(id)}: {relation[id]}" for id in best]


# -- the stream ------------------------------------------------------------------------------------


def recall_events(
    stream: Iterable[object],
    perceived: Perception,
    subject: str,
    tokens: int,
    embedder: Embedder | None = None,
    vectors: dict[str, list[float]] | None = None,  # known ones, by text; others are dropped
) -> list[str]:
    """Return the events that matter most now, the oldest first, in at most so many tokens."""
    # As in Park et al. 2023, "Generative agents" (arXiv:2304.03442), whose importance a model
    # rates: an event's weight is the sum of relevance, recency and importance, each 0 to 1.
    # Relevance is by the words, rare ones most, that it shares with `subject` and perception, or
    # an embedder's. The same words said again, by whomever, count half, then a third, and so on, so
    # that the first time is not crowded out.
    events = [each for each in map(_event, stream) if each is not None]
    if not events:
        return []
    texts = [text for _, text in events]
    if embedder is None:
        scores = _word_scores(texts, f"{subject}\n{perceived.text()}")
    else:
        scores = _meaning_scores(embedder, texts, subject, {} if vectors is None else vectors)
    highest = max(scores) or 1.0
    weights = []
    for (step, _), score, importance in zip(events, scores, importances(texts), strict=True):
        age = max(0, perceived.seconds_since(step))
        weights.append(score / highest + importance + 0.5 ** (age / _HALF_LIFE_S))
    chosen: list[int] = []
    remaining = tokens
    for index in sorted(range(len(events)), key=lambda index: (-weights[index], -index)):
        line = _event_line(perceived, *events[index])
        remaining -= estimate_tokens(line) + 2
        if remaining < 0:
            break
        chosen.append(index)
    lines = [_event_line(perceived, *events[index]) for index in sorted(chosen)]
    return list(dict.fromkeys(lines))


def importances(texts: Iterable[str]) -> list[float]:
    """Return how important events are, 0 to 1; the same words said again less each time."""
    weights, counts = [], Counter[str]()
    for text in texts:
        words = text.partition(": ")[2] or text
        counts[words] += 1
        weight = next((each for start, each in _IMPORTANCE if text.startswith(start)), _DEFAULT)
        weights.append(weight / counts[words])
    return weights


def lightest_index(stream: Sequence[object]) -> int:
    """Return which event weighs least, of equal ones the oldest; the last one is not forgotten.

    The weight is importance and recency, which halves with each quarter of the stream: what an
    event will be relevant to is not known yet.
    """
    texts = [(_event(each) or (0, ""))[1] for each in stream]
    quarter = len(stream) / 4
    weights = [
        importance + 0.5 ** ((len(stream) - index) / quarter)
        for index, importance in enumerate(importances(texts))
    ]
    return min(range(max(1, len(stream) - 1)), key=weights.__getitem__)


def _event(entry: object) -> tuple[int, str] | None:
    """Return an event as its step and text; a chat message is of the first step."""
    if isinstance(entry, tuple | list):
        return int(entry[0]), str(entry[1])
    content = entry.get("content") if isinstance(entry, dict) else None
    return (0, content) if isinstance(content, str) else None


def _event_line(perceived: Perception, step: int, text: str) -> str:
    return f"{time_in_words(perceived, step)}: {text}"


def time_in_words(perceived: Perception, step: int) -> str:
    """Return when a step was, in words: `08:15`, `yesterday 08:15` or `3 days ago 08:15`."""
    clock = perceived.clock
    if clock is None:
        return f"step {step}"
    now = clock.moment
    moment = now - timedelta(seconds=perceived.seconds_since(step))
    days = (now.date() - moment.date()).days
    day = "" if days <= 0 else "yesterday " if days == 1 else f"{days} days ago "
    return f"{day}{moment:%H:%M}"


def _words_in(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _word_scores(texts: Sequence[str], query: str) -> list[float]:
    """Return the words of each text that another has too, summed by their rarity."""
    query_words = _words_in(query)
    words = [_words_in(text) for text in texts]
    counts = Counter(word for each in words for word in each)
    rarity = {word: math.log(1 + len(texts) / count) for word, count in counts.items()}
    return [sum(rarity[word] for word in sorted(each & query_words)) for each in words]


def _meaning_scores(
    embedder: Embedder, texts: Sequence[str], query: str, vectors: dict[str, list[float]]
) -> list[float]:
    """Return the cosine of each text and another, 0 or more."""
    new_texts = [text for text in dict.fromkeys(texts) if text not in vectors]
    query_vector, *new_vectors = embedder.embed([query, *new_texts])
    for text in [*vectors]:
        if text not in texts:
            del vectors[text]
    vectors.update(zip(new_texts, new_vectors, strict=True))

    def cosine(vector: Sequence[float]) -> float:
        length = math.hypot(*vector) * math.hypot(*query_vector)
        product = math.fsum(a * b for a, b in zip(vector, query_vector, strict=True))
        return max(0.0, product / length) if length else 0.0

    return [cosine(vectors[text]) for text in texts]


# -- conversations ---------------------------------------------------------------------------------

MAX_LINES: Final = 8  # what is kept of a conversation, at most
MAX_PARTNERS: Final = 8  # the conversations that are kept, at most
_RECENT_S: Final = 4 * 3600  # a conversation is shown for this time after its last line
_WAIT_S: Final = 3600  # who has said something waits so long for an answer
_MAX_TALKS: Final = 3  # the conversations that are shown, at most


def note_talk(status: dict[str, Any], step: int, other: str, text: str, *, by_self: bool) -> None:
    """Keep a line of a conversation in `status["talks"]`: `[step, mine, text]`, by partner."""
    talks: dict[str, list[list[Any]]] = status.setdefault("talks", {})
    lines = talks.pop(other, [])  # the last of all talks stands last
    talks[other] = [*lines, [step, by_self, text]][-MAX_LINES:]
    while len(talks) > MAX_PARTNERS:
        del talks[next(iter(talks))]


def recent_talks(perceived: Perception) -> dict[str, list[str]]:
    """Return the conversations of the last hours, by partner, with who said what."""
    talks: dict[str, list[list[Any]]] = perceived.status.get("talks") or {}
    recent = {
        id: [each for each in lines if _is_within(perceived, each, _RECENT_S)]
        for id, lines in talks.items()
    }
    partners = [id for id, lines in recent.items() if lines][-_MAX_TALKS:]
    return {
        perceived.label(id): [
            f"{time_in_words(perceived, step)} {'you' if by_self else perceived.label(id)}: {text}"
            for step, by_self, text in recent[id]
        ]
        for id in partners
    }


def waiting_speakers(perceived: Perception, max_replies: int) -> list[str]:
    """Return who waits for an answer, unless the citizen has said `replies` things of late."""
    talks: dict[str, list[list[Any]]] = perceived.status.get("talks") or {}
    return [
        id
        for id, lines in talks.items()
        if lines
        and not lines[-1][1]
        and _is_within(perceived, lines[-1], _WAIT_S)
        and sum(each[1] and _is_within(perceived, each, _RECENT_S) for each in lines) < max_replies
    ]


def _is_within(perceived: Perception, line: Sequence[Any], seconds: int) -> bool:
    """Return whether a line was said in the last so many seconds."""
    return perceived.seconds_since(line[0]) <= seconds

"""A model as the judge of citations; where it fails, a sentence is not checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall import BudgetExceeded, JournalError, ModelReply
from moothall.build import Stop, Unusable, ask_value, completed, log_failure, shorten, side_by_side
from moothall.research.citations.exact_support import exact_support
from moothall.research.citations.footnotes import Verdict
from moothall.research.citations.support import (
    SHOWN_CHARS,
    Claim,
    is_decided,
    judging_prompt,
    judging_schema,
    verdict,
    verdict_reader,
)
from moothall.research.extractive.question_words import similarity_scores
from moothall.research.findings import Passage

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

logger: logging.Logger = logging.getLogger("moothall.research")

_MAX_AT_ONCE: Final = 4
_LEAST_OVERLAP: Final = 0.4  # of a sentence's words that a passage has, to be compared with it
_BATCH_SENTENCES: Final = 8  # of a call
_BATCH_CHARS: Final = 16_000  # of the passages of a call: models overlook what stands amid more


async def judge_narrative(bench: Workbench) -> None:
    """Let the judging model judge the narrative's citations that it has not judged yet."""
    progress, passages = bench.progress, bench.passages_by_number
    cited: dict[str, dict[int, Passage]] = {}
    for number, sentence in progress.citations:
        cited.setdefault(sentence, {})[number] = passages[number]
    judged: dict[str, Verdict] = {}
    claims: list[Claim] = []
    rivals = _nearest_rivals(bench, cited)
    progress.contradictions = [each for each in progress.contradictions if each[0] in cited]
    for sentence, cited_passages in cited.items():
        earlier_supports = bench.judged.get(sentence, {})
        claim = Claim(sentence, cited_passages, rivals.get(sentence, {}))
        if earlier_supports.keys() == cited_passages.keys():
            judged[sentence] = earlier_supports, ""
        elif claim.rivals or not is_decided(claim):
            claims.append(claim)
    semaphore = asyncio.Semaphore(_MAX_AT_ONCE)

    async def judge_batch(number: int, batch: list[Claim]) -> None:
        async with semaphore:
            verdicts = await _ask_verdicts(bench, f"{bench.iteration}.judge.{number}", batch)
            for at, each in verdicts.items():
                claim = batch[at - 1]
                if not (claim.sentence in judged or is_decided(claim)):
                    judged[claim.sentence] = verdict(claim, each)
                progress.contradictions += [
                    (claim.sentence, claim.rivals[number].url, claim.rivals[number].text)
                    for number in each.get("otherwise", ())
                    if number in claim.rivals
                ]

    try:
        batches = enumerate(_batches(claims, _max_chars(bench)), 1)
        await side_by_side([judge_batch(number, batch) for number, batch in batches])
    finally:
        progress.unjudged = sum(
            not (each.sentence in judged or is_decided(each)) for each in claims
        )
        bench.apply_verdicts(judged)


def _nearest_rivals(
    bench: Workbench, cited: Mapping[str, Mapping[int, Passage]]
) -> dict[str, dict[int, Passage]]:
    """Return for each sentence what the nearest passage of another page says, with a number."""
    passages_read, number = bench.known_passages(), len(bench.progress.passages)
    rivals: dict[str, dict[int, Passage]] = {}
    for sentence, passages in cited.items():
        pages = {each.url.partition("#")[0] for each in passages.values()}
        candidates = [each for each in passages_read if each.url.partition("#")[0] not in pages]
        scores = similarity_scores(candidates, [sentence])
        if not scores:
            continue
        nearest = max(scores, key=scores.__getitem__)
        support = exact_support(sentence, nearest.text, nearest.title)
        key = sentence, nearest.url, nearest.sha256
        is_near = support.label != "supported" and support.overlap >= _LEAST_OVERLAP
        if is_near and key not in bench.compared:
            bench.compared.add(key)
            number += 1
            rivals[sentence] = {number: replace(nearest, text=support.window)}
    return rivals


def _max_chars(bench: Workbench) -> int:
    """Return how many characters of passages the judging model is shown at once."""
    judge = bench.agent.judge
    context_tokens = bench.context_tokens if judge is bench.model else None
    context = context_tokens or getattr(judge, "context_tokens", None)
    # As many characters as tokens: a quarter of these.
    return min(_BATCH_CHARS, context) if isinstance(context, int) else _BATCH_CHARS


def _batches(claims: list[Claim], max_chars: int) -> Iterator[list[Claim]]:
    """Yield sentences that are judged in one call, as their passages are not too long."""
    batch: list[Claim] = []
    batch_sizes: dict[int, int] = {}
    for each in claims:
        sizes = {
            number: min(len(passage.text), SHOWN_CHARS) for number, passage in each.cited.items()
        }
        if batch and (
            len(batch) == _BATCH_SENTENCES or sum((batch_sizes | sizes).values()) > max_chars
        ):
            yield batch
            batch, batch_sizes = [], {}
        batch.append(each)
        batch_sizes |= sizes
    if batch:
        yield batch


async def _ask_verdicts(
    bench: Workbench, key: str, claims: list[Claim]
) -> dict[int, dict[str, Any]]:
    """Return the model's verdicts by the number of their sentence; fewer if it fails."""
    verdicts: dict[int, dict[str, Any]] = {}
    schema = judging_schema(claims)

    async def ask(messages: list[dict[str, Any]], number: int) -> Any:
        ask_judge = partial(completed, bench.agent.judge, bench.budget, messages, schema)
        name = getattr(bench.agent.judge, "name", None)
        answer = await bench.record.once(
            f"{key}.{number}", ask_judge, of=ModelReply, beside=True, model=name
        )
        bench.note_usage(answer, name)
        return answer

    try:
        await ask_value(ask, judging_prompt(claims), schema, verdict_reader(claims, verdicts))
    except BudgetExceeded as error:
        raise Stop.at_limit(error) from error
    except (JournalError, Stop):
        raise
    except Unusable as error:
        logger.warning(
            "the judge of agent %r: its answer %s", bench.agent.id, shorten(str(error), 200)
        )
    except Exception as error:
        log_failure(logger, f"the judge of agent {bench.agent.id!r} failed", error)
    return verdicts

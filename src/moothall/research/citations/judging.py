"""A model as the judge of citations; where it fails, a sentence is not checked."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.agents.replies.charging import completed
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.state import ANSWER
from moothall.foundation.errors import BudgetExceeded, JournalError
from moothall.foundation.text import log_failure, shorten
from moothall.models.ask import Unusable, ask_json
from moothall.research.citations.compared import BETWEEN
from moothall.research.citations.exact import exact
from moothall.research.citations.footnotes import check
from moothall.research.citations.support import SCHEMA, is_decided, question, reader
from moothall.research.findings import Passage, Support

if TYPE_CHECKING:
    from moothall.models.ask import Messages
    from moothall.research.workbench import Workbench

logger: logging.Logger = logging.getLogger("moothall.research")

_AT_ONCE: Final = 4


async def judge_narrative(bench: Workbench) -> None:
    """Let the judging model judge every citation of the narrative, and check it anew."""
    progress, passages = bench.progress, bench.numbered
    cited: dict[str, list[Passage]] = {}
    for number, sentence in progress.citations:
        cited.setdefault(sentence, []).append(passages[number])
    pairs: dict[tuple[str, str], str] = {}  # a sentence and what it is judged by, with titles
    for sentence, known in cited.items():
        alone = [[each] for each in known]
        for of in (*alone, known):  # and by all that it cites together
            text = BETWEEN.join(each.text for each in of)
            pairs[sentence, text] = "\n".join(each.title for each in of)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, pair: tuple[str, str], title: str) -> Support | None:
        async with gate:
            return await _judged(bench, f"{bench.iteration}.judge.{number}", *pair, title)

    asked = [one(number, pair, title) for number, (pair, title) in enumerate(pairs.items(), 1)]
    given = dict(zip(pairs, await asyncio.gather(*asked), strict=True))
    judged = {pair: found for pair, found in given.items() if found is not None}
    progress.unjudged = len({sentence for (sentence, _), found in given.items() if found is None})
    bench.note_citations(check(progress.narrative, passages, judged=judged))


async def _judged(
    bench: Workbench, key: str, sentence: str, text: str, title: str
) -> Support | None:
    """Return what the model says of one pair; None if it fails or its answers cannot be used."""
    found = exact(sentence, text, title)
    if is_decided(found, sentence, text, title):
        return found

    async def ask(messages: Messages, number: int) -> Any:
        of = partial(completed, bench.agent.judge, bench.budget, messages, SCHEMA)
        name = getattr(bench.agent.judge, "name", None)
        answer = await bench.record.step(f"{key}.{number}", of, of=ANSWER, beside=True, model=name)
        bench.note_usage(answer, name)
        return answer

    try:
        return await ask_json(ask, question(sentence, text, title), SCHEMA, reader(found))
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
    return None

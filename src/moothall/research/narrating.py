"""Narrating with a model: all that was read, whole or section by section."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moothall import ContextOverflow
from moothall.build import Stop, Unusable, counted, one_line, shorten, side_by_side
from moothall.research import prompts, rules
from moothall.research.citations.footnotes import without_list
from moothall.research.extractive.index import QuestionWords, nearest
from moothall.research.findings import Heading, Narrative, Passage
from moothall.research.owner import can_plan
from moothall.research.writing.answers import outline_in, written_in
from moothall.research.writing.frame import phrase, topics_of
from moothall.research.writing.sections import (
    as_section,
    join_sections,
    split_sections,
    with_sections,
)

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

Numbered = tuple[int, Passage]
"""A passage with the number by which it is cited."""

_AT_ONCE: Final = 4  # sections that are written side by side
_OF_A_PASSAGE: Final = 40  # tokens beside its text


async def narrate(researcher: Workbench) -> Narrative:
    """Return the narrative, improved by every passage of this iteration."""
    progress = researcher.progress
    fresh = _ranked(researcher)
    remaining = [*fresh]
    try:
        if fresh:
            await plan_outline(researcher)
        if not progress.outline:
            await _narrate_at_once(researcher, remaining)
            title, sections = split_sections(progress.narrative)
            has_title_alone = not title or (title.startswith("# ") and "\n" not in title)
            if (
                len(sections) > 1
                and has_title_alone
                and can_plan(researcher.model)
                and not remaining
            ):
                await _summarize(researcher, title, [*sections.items()])
        if progress.outline and remaining:
            await _by_section(researcher, remaining)
    except Stop as stop:
        if remaining:
            passages = counted(len(remaining), "passage")
            researcher.note(
                f"{passages} of {len(fresh)} not narrated: {stop.detail or stop.reason}"
            )
        raise
    return researcher.narrative


async def plan_outline(researcher: Workbench) -> None:
    """Ask for an outline, if the report is to have one and has none."""
    progress, style = researcher.progress, researcher.style
    outline = researcher.outline
    if progress.outline or progress.narrative or not (outline or style.is_long):
        return
    if not isinstance(outline, bool):
        progress.outline = [Heading(each) for each in outline]
        if progress.outline:
            return
    try:
        headings = await researcher.ask_until_usable(
            prompts.outline(researcher),
            lambda text: outline_in(text, style.sections),
            prompts.OUTLINE,
        )
        progress.outline = [Heading(heading, description) for heading, description in headings]
    except Unusable as error:
        topics = [each.topic for each in (*researcher.objectives, *researcher.generated)]
        progress.outline = [Heading(one_line(each, 120)) for each in topics]
        researcher.replaced("the outline", error)


# -- the whole at once -----------------------------------------------------------------------------


async def _narrate_at_once(researcher: Workbench, remaining: list[Numbered]) -> None:
    """Let each chunk of passages improve the narrative, until it is too long to be shown whole.

    What was narrated is taken from `remaining`.
    """
    progress = researcher.progress
    for chunk in _chunks(researcher, [*remaining]):
        tokens = prompts.count(researcher, progress.narrative)
        if can_plan(researcher.model) and tokens > prompts.shown_tokens(researcher):
            _outline_what_is_written(researcher)
            return
        await _improve(researcher, chunk)
        del remaining[: len(chunk)]


async def _improve(researcher: Workbench, chunk: list[Numbered]) -> None:
    """Narrate a chunk, in halves if the model's context is smaller than it is said to be."""
    narrative = researcher.progress.narrative
    try:
        if can_plan(researcher.model):
            prompt = prompts.narrative(researcher, narrative, chunk)
            researcher.checked(await researcher.ask_until_usable(prompt, written_in(prompt)))
        else:
            prompt = prompts.answer(researcher, chunk)
            _above_quotes(researcher, await researcher.ask_until_usable(prompt, written_in(prompt)))
    except Unusable as error:
        if narrative:
            fault = shorten(str(error), 200)
            researcher.note(f"{counted(len(chunk), 'passage')} not narrated: the answer {fault}")
        else:
            rules.narrate(researcher)
            researcher.replaced("the narrative", error)
    except Stop as stop:
        if len(chunk) == 1 or not isinstance(stop.error, ContextOverflow):
            raise
        half = len(chunk) // 2
        await _improve(researcher, chunk[:half])
        await _improve(researcher, chunk[half:])


def _above_quotes(researcher: Workbench, answer: str) -> None:
    """Narrate what a small model answers in its sources' words, above what the rules quote.

    So its report says no less than one without a model. A word that no source has drops the
    sentence: of such a model it is more often wrong than put in other words.
    """
    progress = researcher.progress
    lead = phrase("quoted", topics_of(progress))
    before = progress.narrative.partition(lead)[0].removeprefix(prompts.UNKNOWN)
    researcher.checked("\n\n".join(filter(None, [before.strip(), answer])))
    judged = researcher.waits_for_judge  # later, by a model
    notes: dict[str, str] = {}
    for (number, sentence), support in zip(progress.citations, progress.supports, strict=True):
        if judged or support.label == "supported" or support.overlap == 1:
            notes[sentence] = f"{notes.get(sentence, '')}[^{number}^]"
    quotes = rules.narrate(researcher).markdown
    own_notes = [f"{each} {cited}" for each, cited in notes.items() if each not in quotes]
    text = "\n\n".join(filter(None, [*own_notes, lead if own_notes and quotes else "", quotes]))
    researcher.checked(text or prompts.UNKNOWN, by_rules=not judged)


def _outline_what_is_written(researcher: Workbench) -> None:
    """Make sections of a narrative that is too long to be rewritten as a whole."""
    progress = researcher.progress
    progress.narrative = with_sections(progress.narrative)
    before, sections = split_sections(progress.narrative)
    if before:
        progress.outline.append(Heading(""))
    progress.outline += [Heading(each) for each in sections]


# -- section by section ----------------------------------------------------------------------------


async def _by_section(researcher: Workbench, remaining: list[Numbered]) -> None:
    """Write the sections side by side, each from its own passages, and then a summary."""
    progress = researcher.progress
    outline = progress.outline
    before, texts = split_sections(progress.narrative)
    if not outline[0].heading:
        texts[""], before = before, ""
    shares = _shares(outline, remaining)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def write(number: int, heading: Heading) -> None:
        async with turn:
            for at, chunk in enumerate(_chunks(researcher, shares[number])):
                key, so_far = f"section{number}.{at}", texts.get(heading.heading, "")
                texts[heading.heading] = await _section(researcher, heading, so_far, chunk, key)
                narrated = {each for each, _ in chunk}
                remaining[:] = [each for each in remaining if each[0] not in narrated]

    def all_sections() -> list[tuple[str, str]]:
        headings = [each.heading for each in outline]
        other_headings = [each for each in texts if each not in headings]
        return [(each, texts.get(each, "")) for each in (*headings, *other_headings)]

    try:
        await side_by_side([write(n, each) for n, each in enumerate(outline) if shares[n]])
    finally:
        researcher.checked(join_sections(before, all_sections()))
    if outline[0].heading and (sections := split_sections(progress.narrative)[1]):
        texts = sections
        await _summarize(researcher, "", all_sections())


async def _summarize(researcher: Workbench, title: str, sections: list[tuple[str, str]]) -> None:
    """Put a summary, which begins with the answer, above the sections."""
    try:
        prompt = prompts.summary(researcher, dict(sections))
        summary = as_section(
            await researcher.ask_until_usable(prompt, written_in(prompt)), "Summary"
        )
        researcher.checked(join_sections("\n\n".join(filter(None, [title, summary])), sections))
    except Unusable as error:
        researcher.replaced("the summary", error)


async def _section(
    researcher: Workbench, heading: Heading, so_far: str, chunk: list[Numbered], key: str
) -> str:
    """Return a section with what a chunk of passages adds."""
    prompt = prompts.section(researcher, heading, so_far, chunk)
    adds = prompts.count(researcher, so_far) > prompts.shown_tokens(researcher)
    try:
        text_of_model = await researcher.ask_until_usable(prompt, written_in(prompt), at=key)
        text = without_list(as_section(text_of_model, heading.heading))
    except Unusable as error:
        name = heading.heading or "the beginning"
        researcher.replaced(f"the section “{one_line(name, 120)}”", error)
        topic = f"{heading.heading} {heading.about}".strip()
        topics = [topic] if topic else [each.topic for each in researcher.objectives]
        text, adds = rules.quoted(researcher, [passage for _, passage in chunk], topics), True
    except Stop as stop:
        if len(chunk) == 1 or not isinstance(stop.error, ContextOverflow):
            raise
        half = len(chunk) // 2
        first = await _section(researcher, heading, so_far, chunk[:half], f"{key}.1")
        return await _section(researcher, heading, first, chunk[half:], f"{key}.2")
    return "\n\n".join(filter(None, [so_far, text])) if adds else text


def _shares(outline: list[Heading], passages: list[Numbered]) -> list[list[Numbered]]:
    """Return the passages of each section: each goes to the one that it says most about.

    What says nothing about any goes to the one that has least.
    """
    distinct = [*dict.fromkeys(passage for _, passage in passages)]
    scores: list[dict[Passage, float]] = [
        {
            ranked.passage: ranked.share
            for ranked in QuestionWords(f"{each.heading} {each.about}", distinct).best()
        }
        for each in outline
    ]
    shares: list[list[Numbered]] = [[] for _ in outline]
    for each in passages:
        share = [score.get(each[1], 0.0) for score in scores]
        best = max(share)
        owner = share.index(best) if best else min(range(len(shares)), key=lambda n: len(shares[n]))
        shares[owner].append(each)
    return shares


# -- passages --------------------------------------------------------------------------------------


def _ranked(researcher: Workbench) -> list[Numbered]:
    """Return the passages of this iteration with their numbers, the most relevant first."""
    fresh = researcher.fresh_passages()
    topics = [each.topic for each in (*researcher.objectives, *researcher.generated)]
    best = nearest(fresh, topics)
    ranked = sorted(fresh, key=lambda each: -best.get(each, 0.0))
    return [(researcher.number_of(each), each) for each in ranked]


def _chunks(researcher: Workbench, passages: list[Numbered]) -> Iterator[list[Numbered]]:
    """Yield passages in chunks that fit the model."""
    size = max(prompts.room(researcher) // 2, prompts.LEAST_TOKENS)
    chunk: list[Numbered] = []
    used = 0
    for each in passages:
        tokens = prompts.count(researcher, each[1].text) + _OF_A_PASSAGE
        if chunk and used + tokens > size:
            yield chunk
            chunk, used = [], 0
        chunk.append(each)
        used += tokens
    if chunk:
        yield chunk

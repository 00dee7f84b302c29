"""Narrating with a model: all that was read, whole or section by section."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from moothall import ContextOverflow
from moothall.build import Stop, UnreadableText, Unusable, counted, one_line, shorten, side_by_side
from moothall.research import extractive_steps, prompts
from moothall.research.citations.footnotes import without_list
from moothall.research.extractive.question_words import QuestionWords, similarity_scores
from moothall.research.findings import Heading, Narrative, Passage
from moothall.research.researcher_protocol import can_plan
from moothall.research.sentences import NOTE
from moothall.research.writing.answers import outline_in, reader_for_prompt
from moothall.research.writing.footnote_forms import with_footnotes
from moothall.research.writing.report_frame import phrase, topics_of
from moothall.research.writing.sections import (
    as_section,
    heading_of,
    join_sections,
    split_sections,
    with_sections,
)

if TYPE_CHECKING:
    from moothall.research.workbench import Workbench

NumberedPassage = tuple[int, Passage]
"""A passage with the number by which it is cited."""

_MAX_AT_ONCE: Final = 4  # sections that are written side by side
_PASSAGE_OVERHEAD_TOKENS: Final = 40  # tokens beside its text


async def narrate(bench: Workbench) -> Narrative:
    """Return the narrative, improved by every passage of this iteration."""
    progress = bench.progress
    fresh_passages = _ranked_passages(bench)
    remaining = [*fresh_passages]
    try:
        if fresh_passages:
            await plan_outline(bench)
        if not progress.outline:
            await _narrate_at_once(bench, remaining)
            title, sections = split_sections(progress.narrative)
            has_title_alone = not title or (title.startswith("# ") and "\n" not in title)
            if len(sections) > 1 and has_title_alone and can_plan(bench.model) and not remaining:
                await _summarize(bench, title, [*sections.items()])
        if progress.outline and remaining:
            await _narrate_by_section(bench, remaining)
    except Stop as stop:
        if remaining:
            passages = counted(len(remaining), "passage")
            bench.note(
                f"{passages} of {len(fresh_passages)} not narrated: {stop.detail or stop.reason}"
            )
        raise
    return bench.narrative


async def plan_outline(bench: Workbench) -> None:
    """Ask for an outline, if the report is to have one and has none."""
    progress, style = bench.progress, bench.style
    outline = bench.outline
    if progress.outline or progress.narrative or not (outline or style.is_long):
        return
    if not isinstance(outline, bool):
        progress.outline = [Heading(each) for each in outline]
        if progress.outline:
            return
    try:
        headings = await bench.ask_until_usable(
            prompts.outline(bench),
            lambda text: outline_in(text, style.sections),
            prompts.OUTLINE,
        )
        progress.outline = [Heading(heading, description) for heading, description in headings]
    except Unusable as error:
        topics = [each.topic for each in (*bench.objectives, *bench.generated)]
        progress.outline = [Heading(one_line(each, 120)) for each in topics]
        bench.note_replaced("the outline", error)


# -- the whole at once -----------------------------------------------------------------------------


async def _narrate_at_once(bench: Workbench, remaining: list[NumberedPassage]) -> None:
    """Improve the narrative by chunks, until it is too long; they leave `remaining`."""
    progress = bench.progress
    for chunk in _chunks(bench, [*remaining]):
        tokens = prompts.count_tokens(bench, progress.narrative)
        if can_plan(bench.model) and tokens > prompts.shown_tokens(bench):
            _outline_what_is_written(bench)
            return
        await _improve(bench, chunk)
        del remaining[: len(chunk)]


async def _improve(bench: Workbench, chunk: list[NumberedPassage]) -> None:
    """Narrate a chunk, in halves if the model's context is smaller than it is said to be."""
    narrative = bench.progress.narrative
    try:
        if can_plan(bench.model):
            prompt = prompts.narrative(bench, narrative, chunk)
            read = _improvement_reader(bench, narrative, reader_for_prompt(prompt))
            bench.check_narrative(await bench.ask_until_usable(prompt, read))
        else:
            prompt = prompts.answer(bench, chunk)
            _narrate_small(bench, await bench.ask_until_usable(prompt, reader_for_prompt(prompt)))
    except Unusable as error:
        if narrative:
            fault = shorten(str(error), 200)
            bench.note(f"{counted(len(chunk), 'passage')} not narrated: the answer {fault}")
        else:
            extractive_steps.narrate(bench)
            bench.note_replaced("the narrative", error)
    except Stop as stop:
        if len(chunk) == 1 or not isinstance(stop.error, ContextOverflow):
            raise
        half = len(chunk) // 2
        await _improve(bench, chunk[:half])
        await _improve(bench, chunk[half:])


def _improvement_reader(
    bench: Workbench, text_so_far: str, read: Callable[[str], str]
) -> Callable[[str], str]:
    """Return a reader of improved texts that adds to `text_so_far` one with only what is new."""
    own_notes = {*NOTE.findall(text_so_far)}

    def read_improved(text: str) -> str:
        improved = read(text)
        cited = {*NOTE.findall(with_footnotes(improved, bench.passages_by_number))}
        if own_notes and not cited:
            raise UnreadableText("has no footnote: give the whole text, with what is new")
        return improved if cited & own_notes or not own_notes else f"{text_so_far}\n\n{improved}"

    return read_improved


def _narrate_small(bench: Workbench, answer: str) -> None:
    """Narrate a small model's sentences in its sources' words, above what the rules quote."""
    progress = bench.progress
    lead = phrase("quoted", topics_of(progress))
    text_before = progress.narrative.partition(lead)[0].removeprefix(prompts.UNKNOWN)
    bench.check_narrative("\n\n".join(filter(None, [text_before.strip(), answer])))
    is_judged_later = bench.waits_for_judge  # by a model
    notes: dict[str, str] = {}
    for (number, sentence), support in zip(progress.citations, progress.supports, strict=True):
        if is_judged_later or support.label == "supported" or support.overlap == 1:
            notes[sentence] = f"{notes.get(sentence, '')}[^{number}^]"
    quotes = extractive_steps.narrate(bench).markdown
    cited_sentences = [f"{each} {cited}" for each, cited in notes.items() if each not in quotes]
    text = "\n\n".join(
        filter(None, [*cited_sentences, lead if cited_sentences and quotes else "", quotes])
    )
    bench.check_narrative(text or prompts.UNKNOWN, by_rules=not is_judged_later)


def _outline_what_is_written(bench: Workbench) -> None:
    """Make sections of a narrative that is too long to be rewritten as a whole."""
    progress = bench.progress
    progress.narrative = with_sections(progress.narrative)
    text_before, sections = split_sections(progress.narrative)
    if text_before:
        progress.outline.append(Heading(""))
    progress.outline += [Heading(each) for each in sections]


# -- section by section ----------------------------------------------------------------------------


async def _narrate_by_section(bench: Workbench, remaining: list[NumberedPassage]) -> None:
    """Write the sections side by side, each from its own passages, and then a summary."""
    progress = bench.progress
    outline = progress.outline = _distinct_headings(progress.outline)
    text_before, texts = split_sections(progress.narrative)
    if not outline[0].heading:
        texts[""], text_before = text_before, ""
    passages_by_section = _passages_by_section(outline, remaining)
    semaphore = asyncio.Semaphore(_MAX_AT_ONCE)

    async def write(number: int, heading: Heading) -> None:
        async with semaphore:
            for at, chunk in enumerate(_chunks(bench, passages_by_section[number])):
                key, text_so_far = f"section{number}.{at}", texts.get(heading.heading, "")
                texts[heading.heading] = await _narrate_section(
                    bench, heading, text_so_far, chunk, key
                )
                narrated = {each for each, _ in chunk}
                remaining[:] = [each for each in remaining if each[0] not in narrated]

    def all_sections() -> list[tuple[str, str]]:
        headings = [each.heading for each in outline]
        other_headings = [each for each in texts if each not in headings]
        return [(each, texts.get(each, "")) for each in (*headings, *other_headings)]

    try:
        await side_by_side(
            [write(n, each) for n, each in enumerate(outline) if passages_by_section[n]]
        )
    finally:
        bench.check_narrative(join_sections(text_before, all_sections()))
    if outline[0].heading and (sections := split_sections(progress.narrative)[1]):
        texts = sections
        await _summarize(bench, "", all_sections())


async def _summarize(bench: Workbench, title: str, sections: list[tuple[str, str]]) -> None:
    """Put a summary, which begins with the answer, above the sections."""
    try:
        prompt = prompts.summary(bench, dict(sections))
        summary = as_section(
            await bench.ask_until_usable(prompt, reader_for_prompt(prompt)), "Summary"
        )
        bench.check_narrative(join_sections("\n\n".join(filter(None, [title, summary])), sections))
    except Unusable as error:
        bench.note_replaced("the summary", error)


async def _narrate_section(
    bench: Workbench, heading: Heading, text_so_far: str, chunk: list[NumberedPassage], key: str
) -> str:
    """Return a section with what a chunk of passages adds."""
    prompt = prompts.section(bench, heading, text_so_far, chunk)
    is_added = prompts.count_tokens(bench, text_so_far) > prompts.shown_tokens(bench)
    try:
        read = _improvement_reader(
            bench, "" if is_added else text_so_far, reader_for_prompt(prompt)
        )
        text_of_model = await bench.ask_until_usable(prompt, read, at=key)
        text = without_list(as_section(text_of_model, heading.heading))
    except Unusable as error:
        name = heading.heading or "the beginning"
        bench.note_replaced(f"the section “{one_line(name, 120)}”", error)
        topic = f"{heading.heading} {heading.about}".strip()
        topics = [topic] if topic else [each.topic for each in bench.objectives]
        passages, is_added = [passage for _, passage in chunk], True
        text = extractive_steps.quoted_sentences(bench, passages, topics)
    except Stop as stop:
        if len(chunk) == 1 or not isinstance(stop.error, ContextOverflow):
            raise
        half = len(chunk) // 2
        first_text = await _narrate_section(bench, heading, text_so_far, chunk[:half], f"{key}.1")
        return await _narrate_section(bench, heading, first_text, chunk[half:], f"{key}.2")
    return "\n\n".join(filter(None, [text_so_far, text])) if is_added else text


def _distinct_headings(outline: list[Heading]) -> list[Heading]:
    """Return headings as a narrative holds them, which tells sections apart by them alone."""
    headings: dict[str, Heading] = {}
    for each in outline:
        text = heading_of(each.heading)
        headings.setdefault(text, Heading(text, each.about))
    return [*headings.values()]


def _passages_by_section(
    outline: list[Heading], passages: list[NumberedPassage]
) -> list[list[NumberedPassage]]:
    """Return the passages of each section: of what they say most about, else of what has least."""
    distinct = [*dict.fromkeys(passage for _, passage in passages)]
    scores: list[dict[Passage, float]] = [
        {
            ranked.passage: ranked.share
            for ranked in QuestionWords(f"{each.heading} {each.about}", distinct).best()
        }
        for each in outline
    ]
    sections: list[list[NumberedPassage]] = [[] for _ in outline]
    for each in passages:
        section_scores = [score.get(each[1], 0.0) for score in scores]
        best = max(section_scores)
        index = (
            section_scores.index(best)
            if best
            else min(range(len(sections)), key=lambda n: len(sections[n]))
        )
        sections[index].append(each)
    return sections


# -- passages --------------------------------------------------------------------------------------


def _ranked_passages(bench: Workbench) -> list[NumberedPassage]:
    """Return the passages of this iteration with their numbers, the most relevant first."""
    passages = bench.fresh_passages()
    topics = [each.topic for each in (*bench.objectives, *bench.generated)]
    scores = similarity_scores(passages, topics)
    ranked = sorted(passages, key=lambda each: -scores.get(each, 0.0))
    return [(bench.number_of(each), each) for each in ranked]


def _chunks(bench: Workbench, passages: list[NumberedPassage]) -> Iterator[list[NumberedPassage]]:
    """Yield passages in chunks that fit the model."""
    max_tokens = max(prompts.max_prompt_tokens(bench) // 2, prompts.LEAST_TOKENS)
    chunk: list[NumberedPassage] = []
    chunk_tokens = 0
    for each in passages:
        tokens = prompts.count_tokens(bench, each[1].text) + _PASSAGE_OVERHEAD_TOKENS
        if chunk and chunk_tokens + tokens > max_tokens:
            yield chunk
            chunk, chunk_tokens = [], 0
        chunk.append(each)
        chunk_tokens += tokens
    if chunk:
        yield chunk

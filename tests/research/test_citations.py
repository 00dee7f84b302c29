"""What a sentence has and its passage has not, and what becomes of a narrative's footnotes."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.research.citations import check, fault, renumber_footnotes
from moothall.research.citations.footnotes import sentences_without_source
from moothall.research.findings import Passage
from moothall.research.sentences import sentence_spans

WAIT = (
    "asyncio.wait_for(aw, timeout) waits for the aw awaitable to complete. If a timeout "
    "occurs, it cancels the task and raises TimeoutError. To avoid the task cancellation, "
    "wrap it in shield(). The total wait time may exceed the timeout. The loop parameter was "
    "removed in version 3.10. The default is None, which means that it never times out; 0.5 "
    "means half a second. At most 1,000 tasks may wait. It is not safe to call it from "
    "another thread unless the loop is stopped. Guido van Rossum and Yury Selivanov wrote the "
    "first version in 2013."
)
LYON = (
    "On 3 March 2021 the city of Lyon opened 12 new stations. About two hundred and fifty "
    "workers built them, twice as many as in 2015. Marie Dupont, the mayor, said that costs "
    "had risen by 17 percent to €4.2 million. The old tram line does not run on Sundays. None "
    "of the stations is accessible to wheelchairs. Before 2010 there were fewer buses than "
    "trams."
)
BAHN = (
    "Der Vertrag gilt nicht für Schäden über 1.000 Euro. Im Jahr 1925 baute Anna Berg drei Häuser."
)
PARC = "Le parc n'ouvre pas le lundi. Il compte trois entrées et 1 200 arbres près de Nantes."


def test_fault_is_found_in_a_number_of_the_title_but_not_in_a_name_of_it() -> None:
    passage = "It returns the next item of the queue."

    assert fault("Queue.get() returns the next item.", passage) is not None
    assert fault("Queue.get() returns the next item.", passage, "Queue.get, page 7") is None
    assert fault("It returns the next 7 items.", passage, "Queue.get, page 7") is not None


@given(st.sampled_from([WAIT, LYON, BAHN, PARC]), st.data())
def test_fault_of_every_sentence_by_its_own_passage_is_none(
    passage: str, data: st.DataObject
) -> None:
    start, end = data.draw(st.sampled_from(sentence_spans(passage)))

    assert fault(passage[start:end], passage) is None


DOCTEST = (
    "Round to two places:\n\n>>> TWO = Decimal('0.01')\n>>> Decimal('3.214').quantize(TWO)\n"
    "Decimal('3.21')\n\nNo context is needed. See https://example.org/decimal. The second place "
    "is rounded.\n\n    >>> [[1, 2], [3]][0]\n    [1, 2]\n\nThe third place is lost."
)


@given(st.sampled_from([WAIT, DOCTEST]), st.data())
def test_fault_of_a_quotation_over_sentences_and_code_is_none(
    passage: str, data: st.DataObject
) -> None:
    start, _ = data.draw(st.sampled_from(sentence_spans(passage)))
    rest = passage[start:].split()

    quoted = " ".join(rest[: data.draw(st.integers(1, len(rest)))])
    assert fault(f"“{quoted}”", passage) is None


@given(st.integers(2, 10**9), st.integers(2, 10**9), st.sampled_from(["{}", "{:,}", "about {}"]))
def test_number_that_the_passage_has_not_is_a_fault_unless_it_is_rounded(
    said: int, there: int, form: str
) -> None:
    why = fault(f"The store holds {form.format(said)} items.", f"The store holds {there} items.")

    digits = str(said).rstrip("0")
    half = 10 ** (len(str(said)) - len(digits)) / 2 if len(digits) > 1 or "about" in form else 0
    assert (why is None) == (abs(said - there) <= half)


PIECES = (
    "not can't none N'est “ ” \" ' ` … [^1^] 1,000 1.000 -1 50% 3rc1 one hundred and half or --x "
    "wait_for() C++ Anna the of it's unsafe safe always never . ! , ; ( ) \n \0 情報 \ud800 ² ٣"
)


@given(*[st.lists(st.sampled_from(PIECES.split(" "))).map(" ".join)] * 2)
def test_fault_of_any_sentence_is_judged_and_none_by_itself(one: str, other: str) -> None:
    assert fault(one, other) is None or isinstance(fault(one, other), str)
    spans = sentence_spans(one)
    if len(spans) == 1 and spans[0] == (0, len(one)):
        assert fault(one, f"{one}\n\n{other}") is None


@given(st.sampled_from([WAIT, LYON, BAHN, PARC]), st.data())
def test_footnote_of_a_quoted_sentence_is_kept(passage: str, data: st.DataObject) -> None:
    start, end = data.draw(st.sampled_from(sentence_spans(passage)))
    text = f"- “{passage[start:end]}” [^5^]\n"

    assert check(text, {5: Passage.of("https://example.org", passage, "2026")}).markdown == text


# -- a narrative -----------------------------------------------------------------------------------

PASSAGES = {
    1: Passage.of("https://example.org/queue", "The queue holds 10 items.", "2026-01-02"),
    2: Passage.of("https://example.org/lyon", LYON, "2026-01-02"),
    7: Passage.of("https://example.org/queue", "The queue holds 10 items.", "2026-01-03"),
    8: Passage.of("https://example.org/put", "Then put() waits for a free place.", "2026-01-02"),
}


def checked(markdown: str) -> str:
    return check(markdown, PASSAGES).markdown


def test_footnotes_that_are_not_supporting_are_dropped_and_a_sentence_without_any_is_marked() -> (
    None
):
    done = check("The queue holds 10 items.[^2^][^1^] It holds 11 items [^1^]. It waits.", PASSAGES)

    assert done.markdown == (
        "The queue holds 10 items.[^1^] It holds 11 items. [unsupported] It waits."
    )
    assert [(each.number, each.sentence, each.passage) for each in done.citations] == [
        (1, "The queue holds 10 items.", PASSAGES[1])
    ]
    assert done.uncited == 1
    assert done.unsupported == [("It holds 11 items.", "says 11, which is not in the passage")]


@pytest.mark.parametrize("note", ("[^1^]", "[^1]", "[^1^][^2^]", "[^1,2^]", "[^2, 1]", " [^ 1 ^]"))
def test_footnotes_in_every_form_become_one_form(note: str) -> None:
    assert checked(f"The queue holds 10 items.{note}").replace(" [", "[") == (
        "The queue holds 10 items.[^1^]"
    )


@pytest.mark.parametrize("note", ("[^3^]", "[^x^]", "[^3^][^x^]", "[^ ^]"))
def test_footnote_of_an_unknown_source_is_dropped(note: str) -> None:
    done = check(f"The queue holds 10 items.{note}", PASSAGES)

    assert done.markdown == "The queue holds 10 items. [unsupported]"
    assert done.unsupported == [("The queue holds 10 items.", "cites an unknown source")]


def test_footnote_in_a_paragraph_of_its_own_is_for_no_sentence() -> None:
    done = check("The queue holds 10 items.\n\n[^1^]\n\nIt has 9. [^1^] [^2^]", PASSAGES)

    assert "10 items.\n\n\n\nIt has 9." in done.markdown
    assert (done.uncited, [text for text, _ in done.unsupported]) == (1, ["It has 9."])


def test_passages_may_bear_a_sentence_out_together_and_only_those_needed_are_kept() -> None:
    both = "The queue holds 10 items, and put() waits for a free place."

    assert checked(f"{both}[^1^][^2^][^8^]") == f"{both}[^1^][^8^] [not checked]"


def test_quotation_from_one_passage_into_another_is_unsupported() -> None:
    quoted = "It says “holds 10 items. Then put() waits for a free place”."

    assert checked(f"{quoted}[^1^][^8^]") == f"{quoted} [unsupported]"


def test_markdown_blocks_are_each_checked_and_code_is_left_alone() -> None:
    text = (
        "## The queue holds 10 items [^1^]\n\n- The queue holds 10 items [^1^]\n"
        "- It holds 9 [^1^]\n\n"
        "| The queue holds | 10 items [^1^] |\n|---|---|\n| The queue holds | 9 items [^1^] |\n\n"
        "```\nx[^a-z]\n```\nThe pattern `[^a-z]` is no footnote."
    )

    wanted = text.replace("holds 9 [^1^]", "holds 9 [unsupported]")
    wanted = wanted.replace("9 items [^1^] |", "9 items [unsupported] |")
    assert checked(text) == wanted.replace("10 items [^1^] |", "10 items [^1^] [not checked] |")


def test_headings_and_the_heads_of_tables_are_no_sentences_without_a_source() -> None:
    table = "| It | Holds |\n|---|---|\n| Queue | many |"
    text = f"# Queues\n\nTheir size\n----------\n\n{table}\n\nSo it is."
    assert check(text, PASSAGES).uncited == 2  # the row and the last sentence


def test_sentences_without_a_source_are_listed_and_none_that_lost_its_source() -> None:
    text = (
        "## Size\n\nThe queue holds 10 items [^1^]. It holds 11 items [^1^]. It waits. So\nit is."
    )
    assert sentences_without_source(check(text, PASSAGES).markdown) == ["It waits.", "So it is."]


@pytest.mark.parametrize(
    "end",
    (
        "\n\n[^1^]: https://example.org/made-up\n    and more\n[^2]: x",
        "\n\n## Sources\n\n1. https://example.org/made-up\n2. [^1^] x\n",
        "\n\n**References:**\n- x\n",
        "\n\nQuellen\n-------\n[^1^] https://example.org/made-up",
    ),
)
def test_sources_that_the_narrative_lists_itself_are_taken_off(end: str) -> None:
    text = "The queue holds 10 items.[^1^]"

    assert checked(text + end).strip() == text


def test_markdown_heading_of_sources_in_the_middle_is_kept() -> None:
    text = "## Sources\n\n- The queue holds 10 items.[^1^]\n\n## More\n\nIt waits."

    assert checked(text) == text


def test_quote_of_words_that_look_like_a_mark_keeps_them_and_its_footnote() -> None:
    text = "A sentence without support is marked `[unsupported]` there."
    passages = {1: Passage.of("https://a.test", text, "")}
    done = check(f"- “{text}” [^1^]", passages, by_rules=True)

    assert (done.markdown, done.unsupported) == (f"- “{text}” [^1^]", [])


@pytest.mark.parametrize(
    "mark", (" [unsupported]", "[unsup [Unsupported]ported]", r" \[unsupported\]")
)
def test_marks_that_the_narrative_came_with_are_taken_off(mark: str) -> None:
    assert checked(f"The queue holds 10 items.[^1^]{mark}") == "The queue holds 10 items.[^1^]"


def test_footnotes_are_numbered_as_they_come_and_one_passage_has_one_number() -> None:
    text = (
        "Lyon opened 12 new stations.[^2^] The queue holds 10 items.[^7^][^1^] "
        "Then put() waits for a free place.[^8^]"
    )

    done = check(text, PASSAGES)
    markdown, citations = renumber_footnotes(done.markdown, done.citations)

    assert markdown == (
        "Lyon opened 12 new stations.[^1^] [not checked] The queue holds 10 items.[^2^] "
        "Then put() waits for a free place.[^3^]"
    )
    assert [each.number for each in citations] == [1, 2, 2, 3]


LINES = (
    "[^1^] [^2^] [^1,8] [^ [^9^] ^] [^x^] ` ``` ~~~ # - | > . \n \n\n [unsupported] Sources [^1]: "
    "queue"
)


@given(st.lists(st.sampled_from([*LINES.split(" "), " ", "The queue holds 10 items"])).map("".join))
def test_footnotes_that_are_left_were_all_checked(text: str) -> None:
    done = check(text, PASSAGES)
    markdown, citations = renumber_footnotes(done.markdown, done.citations)

    left = {int(number) for number in re.findall(r"\[\^(\d+)[^\]]*\]", markdown)}
    assert left == {each.number for each in citations} == set(range(1, len(left) + 1))
    assert markdown.count("[unsupported]") == len(done.unsupported)


@pytest.mark.parametrize("piece", ("“a b ", "„a ", "'a ", '"a ', "ab", "7", "7 ", "a b. ", "[^1^]"))
def test_citation_check_of_a_hostile_text_takes_time_that_grows_with_it(piece: str) -> None:
    start = time.process_time()
    check(f"The queue 万 {piece * (20_000 // len(piece))} holds 10 items.[^1^]", PASSAGES)

    assert time.process_time() - start < 10

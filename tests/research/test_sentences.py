"""Where sentences begin and end, and the words that carry their content."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.foundation.text.vocabulary import Words
from moothall.research.sentences import sentence_spans


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "text",
    (
        "It takes e.g. 3.5 s, i.e. less than Dr. Smith and J. R. Tolkien say (cf. Fig. 3).",
        "See https://example.org/a.b?c=d. for more of version 1.2.3 etc. and so on.",
        "Wait ... and then go on.",
        "He said “Stop it. Now!” and went.",
        "Am 3. Mai kam z. B. Frau Nr. 7.",
        "The pier is max. 5 m wide, approx. 3 m deep, as art. 7 says in incl. 2 drawings.",
        "The U.S. Army uses `a. B` and No. 5.",
    ),
)
def test_sentence_does_not_end_at_abbreviations_and_numbers(text: str) -> None:
    assert cut(text) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("One is. Two is! Three?", ["One is.", "Two is!", "Three?"]),
        ("It waits 5 ms. Then it goes.", ["It waits 5 ms.", "Then it goes."]),
        ("He left the U.S. The rest stayed.", ["He left the U.S.", "The rest stayed."]),
        ("It waits. asyncio.run() goes on.", ["It waits.", "asyncio.run() goes on."]),
        ("これは文です。次の文。", ["これは文です。", "次の文。"]),
        ("A is.[^1^][^2^] B is. [^3^]\nC.", ["A is.[^1^][^2^]", "B is. [^3^]", "C."]),
        ("(A is.) “B is.” C", ["(A is.)", "“B is.”", "C"]),
    ),
)
def test_sentence_ends_at_its_full_stop_and_has_its_footnotes(
    text: str, expected: list[str]
) -> None:
    assert cut(text) == expected


def test_blocks_of_markdown_end_sentences_and_code_is_none() -> None:
    text = (
        "# A heading\nText of two\nlines\n\n- one\n- two\n  lines\n1. three\n\n> quoted\n\n"
        "```python\nx = 1. Y\n```\n| a | b |\n|---|---|\n| c | d |\n\n"
        "Title\n=====\nShort title\nThe end"
    )

    assert cut(text) == [
        *("A heading", "Text of two\nlines", "one", "two\n  lines", "three", "quoted"),
        *("a | b", "c | d", "Title", "Short title", "The end"),
    ]


@given(st.text(alphabet="ab AB.!?…。\n`~-*|#>[^1]“”\"'", max_size=80))
def test_sentences_come_in_order_and_hold_every_word_outside_code(text: str) -> None:
    spans = sentence_spans(text)

    assert [end for _, end in spans] == sorted(end for _, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)
    if "```" not in text and "~~~" not in text:
        kept = "".join(text[start:end] for start, end in spans)
        assert kept.count("a") + kept.count("B") == text.count("a") + text.count("B")


def test_words_keep_identifiers_flags_and_numbers_whole() -> None:
    text = (
        "Don’t call `asyncio.wait_for()` --with-flag in C++, C/C++ or C#: 1,000.5 ms, -1, 50%, 1-2."
    )

    assert Words(text) == [
        *("Don't", "call", "asyncio.wait_for()", "--with-flag", "in", "C++", "C", "C++", "or"),
        *("C#", "1,000.5", "ms", "-1", "50%", "1", "2"),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ("The libraries were cancelled", "cancellation of a library"),
        ("uses processes", "using the process"),
        ("\uff21\uff22\uff23", "abc"),
        ("Die Stadt und der Fluss", "Stadt Fluss"),
        ("l’homme qu’il est", "homme"),
        ("the tower’s height", "tower height"),
        ("They filtered the orders, preferring", "filters ordering what they prefer"),
        ("colours of the licensed centre, organised", "organize a color center’s licence"),
        ("Wann und wo beginnt welche Schicht?", "Schicht beginnt"),
        ("Quand et pourquoi fermer quelle usine ?", "fermer l’usine"),
    ),
)
def test_content_words_are_the_same_in_other_forms(one: str, other: str) -> None:
    assert sorted(Words(one).terms()) == sorted(Words(other).terms())


def test_word_of_several_parts_is_there_whole_and_in_parts() -> None:
    assert Words("asyncio.wait_for()").terms() == ["asyncio.wait_for", "asyncio", "wait"]
    assert Words("情報源").terms() == ["情報", "報源"]
    assert Words("FTS5情報源1998情報").terms() == ["fts5", "情報", "報源", "1998", "情報"]
    assert Words("WHO").terms() == ["who"]  # a name
    assert Words("Combien de membres prend-elle ?").terms() == ["membr", "prend"]
    assert Words("requestTimeout").terms() == ["requesttimeout", "request", "timeout"]
    assert Words("GitHub iPhone").terms() == ["github", "iphon"]
    assert Words("WHO MEETS").terms() == ["meet"]  # all in capitals


@pytest.mark.parametrize(
    "name",
    ("mke2fs", "mke2fs.conf", "etc/mke2fs", "ListenAddresses", "sqlite3_bind_mode2s", "ls", "dns"),
)
def test_names_of_commands_files_and_settings_are_not_stemmed(name: str) -> None:
    assert Words(name).terms()[0] == name.lower()
    assert not {"mke2f", "mode2", "l", "dn"} & {*Words(name).terms()}


def test_name_is_found_by_how_others_write_it() -> None:
    assert Words("servername").terms() == Words("ServerName").terms()
    assert {*Words("extract").terms()} < {*Words("--extract").terms()}

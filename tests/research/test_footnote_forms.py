"""The forms of footnotes that a model's narrative may have, and what is none."""

from __future__ import annotations

import pytest

from moothall import ScriptedModel
from moothall.models import ModelReply
from moothall.research import Report, Researcher, Resource
from research.small_web import ALPHA, BETA, PAGES, evaluation, plan

PORT = "The alpha protocol uses port 4711"
KEY = "Beta encrypts every message with a key of 128 bits"


async def read(url: str) -> Resource:
    """Read a page."""
    return Resource(url, PAGES[url][0], True, PAGES[url][1])


def report_of(narrative: str) -> Report:
    """A report with this narrative; source 1 is the page of alpha, 2 that of beta."""
    tasks = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
    model = ScriptedModel([tasks, narrative, evaluation({"port of alpha": 0.9})])
    return Researcher("r", model, "port of alpha", [read], 1).report_sync()


@pytest.mark.parametrize(
    "note",
    (
        *("[^1^]", "[^1]", "[1]", "【1】", "[[1]]", "\uff3b1\uff3d", "[Source 1]", "[source: 1]"),
        *("[1](http://web.test/x)", "[[1]](#sources)", "【1†alpha.html】", "<sup>[1]</sup>"),
        *("[1, 1]", "[^1^](http://evil.test)", "<sup>1</sup>", "\u00b9", "[cite: 1]", "[doc 1]"),
        *("[passage 1]", "[Reference 1]", "[doc_1]", "(passage 1)"),
    ),
)
def test_footnote_of_each_form_cites_its_source(note: str) -> None:
    for text in (f"{PORT} {note}.", f"{PORT}.{note}", f"{PORT}. {note}\n\n{KEY}."):
        report = report_of(text)
        assert [(c.number, c.sentence.rstrip(".")) for c in report.citations] == [(1, PORT)], text
        assert report.unsupported == []
        assert f"{PORT}" in report.markdown
        assert "evil" not in report.markdown


def test_footnote_in_a_fence_around_the_whole_text_cites_its_source() -> None:
    for before, after in (
        ("```markdown\n", "\n```"),
        ("Here it is:\n\n```md\n", "\n```\nAsk me."),
        ("```\n", "\n```\n"),
    ):
        for note in ("[1]", "[^1^]"):
            report = report_of(f"{before}# Alpha\n\n{PORT} {note}.{after}")
            assert [each.number for each in report.citations] == [1]
            assert not {"```", "Ask me", "Here it is"} & {*report.markdown.split("\n")}


@pytest.mark.parametrize(
    ("said", "shown"),
    (
        ("There are 10<sup>1</sup> ports", "There are 10^1 ports"),
        ("It sends 10<sup>6</sup> messages", "It sends 10^6 messages"),
        ("The field covers 4 m\u00b2", "The field covers 4 m\u00b2"),
        ("It is the 1<sup>st</sup> port", "It is the 1st port"),
        ("Sorting takes n log\u00b2 n steps", "Sorting takes n log\u00b2 n steps"),
        ("It holds 1024\u00b2 bytes", "It holds 1024\u00b2 bytes"),
    ),
)
def test_raised_number_that_is_a_power_stays_one(said: str, shown: str) -> None:
    report = report_of(f"{PORT} [1]. {said}.")
    assert f"{shown}." in report.markdown
    assert len(report.citations) == 1


@pytest.mark.parametrize(
    "note",
    (
        "[1, 2]",
        "[1,2]",
        "[1; 2]",
        "[^1^, ^2^]",
        "[1-2]",
        "[1\u20132]",
        "[1][2]",
        "【1】【2】",
        "(sources 1, 2)",
        "<sup>1, 2</sup>",
        "\u00b9,\u00b2",
        "(Sources: [1], [2])",
        "(Quellen: [1] und [2])",
        "(see [1]; [2])",
        "([1], [2])",
    ),
)
def test_footnotes_in_a_list_or_a_range_cite_each_source(note: str) -> None:
    report = report_of(f"{PORT} and {KEY[0].lower()}{KEY[1:]} {note}.")
    assert [each.number for each in report.citations] == [1, 2]
    assert "ource" not in report.citations[0].sentence + report.citations[1].sentence


@pytest.mark.parametrize(
    "text",
    (
        "Ports are (1) open or (2) closed.",
        "There are two:\n\n(1) Alpha\n\n(2) Beta",
        "It was written in (1998) and [1998].",
        "The call printf(1) is of section (2).",
        "See step (2), table (1) and § (1).",
        "The array [1, 2] has the index [1].",
        "Values are in the range [1-2].",
        "The code `ports[1]` and `[2]` is right.",
        "Thus:\n\n```\nports[1] [2]\n```\n\nIt is.",
        "Then a[1] = 2.",
        "The ion [1]H and the name port[2]b are no sources.",
        "[1] Alpha is the first item.",
        "It cites [7] and (9).",
        "Alpha \\[1\\] is escaped.",
    ),
)
def test_number_in_brackets_that_is_no_footnote_stays(text: str) -> None:
    report = report_of(text)
    assert report.citations == []
    assert report.unsupported == []
    assert text in report.markdown.replace(" [no source]", "")


def test_number_in_round_brackets_beside_square_footnotes_stays() -> None:
    report = report_of(f"{PORT} [1]. There are two ways (2).")
    assert [each.number for each in report.citations] == [1]
    assert "two ways (2)." in report.markdown


def test_number_of_no_source_beside_footnotes_is_a_footnote_that_is_lost() -> None:
    report = report_of(f"{PORT} [1]. Alpha was invented by Ada Stone [9].")
    assert [each.number for each in report.citations] == [1]
    assert [sentence for sentence, _ in report.unsupported] == ["Alpha was invented by Ada Stone."]
    assert "[9]" not in report.markdown


def test_footnote_definitions_and_lists_of_sources_of_any_form_are_left_out() -> None:
    text = f"{PORT} [1].\n\n## Sources\n\n[1] Alpha – http://web.test/alpha\n[2] Beta\n"
    report = report_of(text)
    assert report.markdown.count("Sources") == 1
    assert len(report.citations) == 1
    text = f"{PORT} [1].\n\n[1]: http://evil.test/x\n"
    assert "evil" not in report_of(text).markdown


@pytest.mark.parametrize("head", ("### References", "**Sources:**", "Bibliography\n------------"))
@pytest.mark.parametrize(
    "entries",
    (
        "[1] Encyclopaedia of Ports, 2020\n[2] Almanac",
        "[1] Encyclopaedia of Ports, 2020",
        "\\[1\\] Encyclopaedia of Ports\n\n\\[2\\] Almanac",
        "1. Encyclopaedia of Ports (2020)",
        "- [Encyclopaedia of Ports](http://evil.test/x)",
    ),
)
def test_report_list_of_sources_that_a_model_made_is_dropped(head: str, entries: str) -> None:
    report = report_of(f"{PORT} [1].\n\n{head}\n\n{entries}\n")
    assert "Encyclopaedia" not in report.markdown
    assert "[no source]" not in report.markdown
    assert len(report.citations) == 1


def test_report_sentence_without_a_source_is_marked_only_once() -> None:
    said = f"{PORT} [1]. Harbours are old (Müller 2021). The sea is wide. [no source] As follows:"
    report = report_of(f"# Ports\n\n{said}\n\n| port | sea |\n| --- | --- |\n| alpha | north |")
    written = report.markdown.partition("## Sources")[0]
    assert "Harbours are old (Müller 2021). [no source]" in written
    assert "The sea is wide. [no source]" in written
    assert written.count("[no source]") == 2
    assert report.uncited >= 2


CUT = f"{PORT} [1]. The gamma part of it is"


@pytest.mark.parametrize("again", (True, False), ids=("mended", "cut-again"))
def test_report_answer_that_was_cut_is_asked_for_again_and_never_passes_as_whole(
    again: bool,
) -> None:
    tasks = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
    second = f"{PORT} [1]." if again else ModelReply(CUT, finish_reason="length")
    done = evaluation({"port of alpha": 0.9})
    model = ScriptedModel([tasks, ModelReply(CUT, finish_reason="length"), second, done])
    report = Researcher("r", model, "port of alpha", [read], 1).report_sync()
    assert "gamma" not in report.markdown
    assert len(report.citations) == 1
    told = str(model.received[2][-1]["content"])
    assert "was cut at the limit of its length" in told
    assert any("was cut at the limit" in each for each in report.notes) is not again

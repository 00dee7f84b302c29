"""The form of a report with a model: its answer, how sure it is, its headings and its sources."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from moothall import ScriptedModel
from moothall.research import Report, Researcher, Resource
from research.small_web import ALPHA, BETA, PAGES, SCRIPT, plan, tools

READ = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
FOUND = plan(("search", {"query": "alpha"}))


def evaluated(*unanswered: str) -> str:
    rated = {"topic": "Which port does alpha use?", "answered": ["the port"]}
    return json.dumps({"objectives": [{**rated, "unanswered": unanswered}], "remark": "Fine."})


def verdicts(*labels: str) -> str:
    each = {"why": "", "passages": [1], "probability": 0.9}
    return json.dumps(
        {"verdicts": [{"sentence": n, "label": e, **each} for n, e in enumerate(labels, 1)]}
    )


def report_of(*answers: Any, **options: Any) -> tuple[Report, ScriptedModel]:
    """A report of two iterations, in the first of which nothing is read."""
    model = ScriptedModel([FOUND, evaluated("all"), READ, *answers])
    made = Researcher(
        "r", model, ["Which port does alpha use?"], tools(), 2, **{"judge": False, **options}
    )
    return made.report_sync(), model


def test_report_says_below_its_answer_how_sure_it_is_and_what_is_not_answered() -> None:
    text = "**The alpha protocol uses port 4711.[^1^]** It is old.[^1^]\n\nBeta came later.[^2^]"
    report, _ = report_of(
        text,
        verdicts("supported", "partly", "unsupported"),
        evaluated("its key [unsupported].[^1^]"),
        judge=True,
    )
    paragraphs = report.markdown.split("\n\n")
    assert paragraphs[1].startswith("**The alpha protocol uses port 4711.**[^1^] It is old.[^1^]")
    assert paragraphs[2] == (
        "*How sure: 1 of 3 sentences supported by 1 source, as a model judged; the others are "
        "marked. Not answered: its key.*"
    )


def test_report_frame_is_in_the_language_of_the_question() -> None:
    model = ScriptedModel([FOUND, evaluated("all"), READ, "Er nutzt 4711.[^1^]", evaluated()])
    made = Researcher("r", model, ["Welchen Port nutzt alpha?"], tools(), 2, judge=False)
    report = made.report_sync().markdown
    assert "*Wie sicher: niemand hat geprüft, ob es aus 1 Quelle folgt.*" in report
    assert re.search(r"\[\^1\^\]: .*, gelesen \d{4}-\d\d-\d\d", report)
    assert "0 Sätze von einer Quelle belegt, 1 markiert als [not checked], 0 markiert" in report
    assert "Er endete nach 2 Durchgängen: die " in report
    page = made.report_so_far().html()
    assert ('<html lang="de">' in page, page.count("Quellen"), "Sources" in page) == (
        True,
        1,
        False,
    )
    assert not re.search(r"\b(?:sentences|source|reached|iterations|whether)\b", report)


@pytest.mark.parametrize(
    ("text", "sure"),
    (
        ("It uses port 4711.[^1^]", "1 sentence, supported by 1 source."),
        ("Alpha uses 4711.[^1^]", "nobody has judged whether it follows from 1 source."),
        ("Alpha is a protocol.", "no source supports it."),
    ),
)
def test_report_that_nobody_judged_says_what_stands_in_its_sources(text: str, sure: str) -> None:
    report, _ = report_of(text, evaluated())
    assert f"*How sure: {sure}*" in report.markdown


def test_report_prompt_asks_for_the_answer_first_and_for_the_language_of_the_question() -> None:
    _, model = report_of("It uses port 4711.[^1^]", evaluated())
    asked = model.received[3][0]["content"]
    assert "Begin with the answer, not with the question: one sentence in bold" in asked
    assert "Only if it has more than 300 words, give its parts `## ` headings." in asked
    assert "Write in the language of the question, whatever the language of the sources is." in (
        asked
    )


@pytest.mark.parametrize(
    ("length", "asked"),
    (
        (100, "Write no headings."),
        (900, "After that, sum up in a paragraph; then give each part a `## ` heading."),
    ),
)
def test_report_prompt_asks_for_headings_and_a_summary_by_length(length: int, asked: str) -> None:
    _, model = report_of("It uses port 4711.[^1^]", evaluated(), length=length)
    assert asked in model.received[3][0]["content"]


def test_report_of_sections_without_a_beginning_gets_a_summary_that_answers() -> None:
    text = "# Ports\n\n## Alpha\n\nIt uses port 4711.[^1^]\n\n## Beta\n\nIt came in 2004.[^2^]"
    report, model = report_of(text, "**It uses port 4711.**[^1^]", evaluated())
    assert "Write the summary" in model.received[4][0]["content"]
    assert report.markdown.startswith(
        "# Ports\n\n**It uses port 4711.**[^1^]\n\n*How sure: 2 of 3 sentences"
    )


@pytest.mark.parametrize(
    "listed",
    (
        "### References \\[1\\] Encyclopaedia of ports",
        "## Quellen\n\n[^1^]: Alpha, https://a.test/x",
        "## References\n\nStone, A. (1998). *Alpha*. https://a.test/x",
        "References: [1] Encyclopaedia, [2] Beta",
        "**Sources used:**\n- Alpha [^1^]",
        "---\n\n## Fuentes\n\n- Alpha",
        "## 参考文献\n\n[1] Alpha",
    ),
)
def test_report_drops_the_list_of_sources_that_a_model_made(listed: str) -> None:
    report, _ = report_of(f"It uses port 4711.[^1^]\n\n{listed}", evaluated())
    body = report.markdown.partition("\n\n## Sources")[0]
    assert body.endswith("supported by 1 source.*")


@pytest.mark.parametrize(
    "section",
    (
        "## References\n\nA reference borrows a value.",
        "## Sources\n\nThe river has two sources.[^1^]",
        "Source: it uses port 4711.[^1^]",
    ),
)
def test_report_keeps_a_section_about_sources_or_references(section: str) -> None:
    report, _ = report_of(f"It uses port 4711.[^1^]\n\n{section}", evaluated())
    assert section.partition("\n\n")[0].partition(".")[0] in report.markdown


def test_report_does_not_ask_for_the_source_of_a_question() -> None:
    report, _ = report_of("**Which port?**\n\nIt uses port 4711.[^1^]", evaluated())
    assert "[no source]" not in report.markdown
    assert "How sure: 1 sentence, supported by 1 source." in report.markdown


def test_report_has_a_text_that_several_addresses_have_as_one_source() -> None:
    copy = "http://web.test/copy"

    async def read(url: str) -> Resource:
        """Read a page."""
        title, text = PAGES[ALPHA if url == copy else url]
        return Resource(url, title, True, text)

    task = plan(("read", {"url": ALPHA}), ("read", {"url": copy}))
    model = ScriptedModel([task, "It uses port 4711.[^1^] It is of 1998.[^2^]", evaluated()])
    report = Researcher("r", model, ["alpha"], [read], 1, judge=False).report_sync()
    assert [each.number for each in report.citations] == [1, 1]
    sources = report.markdown.partition("## Sources\n\n")[2].partition("\n\n---")[0]
    assert sources.startswith(f"[^1^]: The alpha protocol – <{ALPHA}>, also at <{copy}>, read ")
    assert "[^2^]" not in sources
    assert re.search(r"How sure: .* 1 source\W", report.markdown)


def test_report_of_the_usual_script_has_one_line_of_how_sure_it_is() -> None:
    report = Researcher("r", ScriptedModel(SCRIPT), ["alpha"], tools(), judge=False).report_sync()
    assert report.markdown.count("*How sure: ") == 1


def test_narrative_goes_on_below_a_rule_and_lacks_frame_and_sources_in_any_language() -> None:
    text = "Er nutzt den Port 4711.[^1^]\n\n---\n\nAlle lieben ihn."
    model = ScriptedModel([FOUND, evaluated("all"), READ, text, evaluated()])
    made = Researcher("r", model, ["Welchen Port nutzt alpha?"], tools(), 2, judge=False)
    report = made.report_sync()
    assert "Alle lieben ihn." in report.narrative()
    assert "Quellen" not in report.narrative()
    assert report.without_source() == ["Alle lieben ihn."]

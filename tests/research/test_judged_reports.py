"""What a report shows of the support of its sentences, of a judging model, and of differences."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from moothall import Budget, Journal, ScriptedModel
from moothall.foundation.errors import DefinitionError
from moothall.research import Citation, Passage, Report, Researcher, Resource, Section, Support
from moothall.research.citations import check
from moothall.research.citations.differences import differing_citations
from research.small_web import ALPHA, BETA, PAGES, SCRIPT, evaluation, plan, tools, verdicts

DAY = "2026-11-21T14:28:28+00:00"
LAMP = Passage.of("https://a.test/lamp", "The lamp reaches at least 100 metres at night.", DAY)
OTHER = Passage.of("https://b.test/lamp", "The lamp reaches 9000 metres at night.", DAY)


def judged_by(answers: list[Any], **options: Any) -> tuple[Report, ScriptedModel]:
    judge = ScriptedModel(answers)
    made = Researcher("r", ScriptedModel(SCRIPT), ["alpha"], tools(), judge=judge, **options)
    return made.report_sync(), judge


def test_report_sentence_in_other_words_is_marked_as_not_checked_and_the_foot_says_what_to_do() -> (
    None
):
    script = [*SCRIPT[:3], "Port 4711 is used by the alpha protocol.[^1^]", SCRIPT[4]]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools(), judge=False).report_sync()

    assert "Port 4711 is used by the alpha protocol.[^1^] [not checked]" in report.markdown
    assert "0 sentences supported by a source, 1 marked [not checked]" in report.markdown
    assert "read the source, or have a model judge" in report.markdown


def test_citation_of_a_sentence_in_the_words_of_its_passage_has_its_window() -> None:
    script = [
        *SCRIPT[:3],
        "It uses port 4711.[^1^] It never encrypts its messages.[^1^]",
        SCRIPT[4],
    ]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools(), judge=False).report_sync()

    assert len(report.citations) == 2
    for each in report.citations:
        assert each.support is not None
        assert (each.support.label, each.support.judge) == ("supported", "exact")
        assert each.window
        assert each.window in each.passage.text


def test_report_page_shows_the_support_and_marks_the_sentences_that_it_rests_on() -> None:
    said = "says <200>, which is not there"
    found = Support("partly", "at least 100 metres", said, 0.31, judge="model")
    cited = [Citation(1, "It reaches <200> metres.", LAMP, found)]
    html = Report("# T\n\nIt does. [^1^]\n\n## Sources\n\n---\n\nEnd.\n", cited, "done").html()

    assert "The lamp reaches <mark>at least 100 metres</mark> at night." in html
    assert (
        "<b>partly supported</b> (by a model, 0.31): says &lt;200&gt;, which is not there" in html
    )


def test_judge_decides_on_sentences_in_other_words() -> None:
    report, judge = judged_by([verdicts("unsupported", "partly", "supported")])

    assert "The alpha protocol uses port 4711. [unsupported]" in report.markdown
    assert ("The alpha protocol uses port 4711.", "another port") in report.unsupported
    assert "It was written in 1999.[^1^] [partly supported]" in report.markdown
    assert "Beta encrypts every message.[^2^] Gamma" in report.markdown
    assert all(each.support and each.support.judge == "model" for each in report.citations)
    assert "A model judged whether the sources support the sentences." in report.markdown
    assert len(judge.received) == 1  # all three in one call


def test_report_of_a_model_is_judged_by_itself_unless_judge_is_false() -> None:
    script = [*SCRIPT[:4], verdicts("supported", "unsupported", "supported"), SCRIPT[4]]
    model = ScriptedModel(script)
    report = Researcher("r", model, ["alpha"], tools()).report_sync()

    assert report.stop_reason == "done"
    assert "The alpha protocol uses port 4711.[^1^] It was written in 1999. [unsupported]" in (
        report.markdown
    )
    assert len(model.received) == len(script)
    exact = Researcher("r", ScriptedModel(SCRIPT), ["alpha"], tools(), judge=False).report_sync()
    assert "uses port 4711.[^1^] [not checked] It was written in 1999. [unsupported]" in (
        exact.markdown
    )


def test_report_sentence_keeps_the_footnotes_that_the_judge_names() -> None:
    narrative = "Both protocols send messages by a port.[^1^][^2^]"
    judged = verdicts("supported", passages=(2, 7))
    script = [*SCRIPT[:3], narrative, judged, SCRIPT[4]]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools()).report_sync()

    assert [each.passage.url for each in report.citations] == ["http://web.test/beta"]


def test_judge_that_rests_a_sentence_on_a_passage_that_it_does_not_cite_is_asked_again() -> None:
    narrative = "The alpha protocol listens where nobody looks.[^1^]"
    astray = verdicts("supported", passages=(2,))
    script = [*SCRIPT[:3], narrative, astray, astray, SCRIPT[4]]
    model = ScriptedModel(script)
    report = Researcher("r", model, ["alpha"], tools()).report_sync()

    assert "no verdict on sentence 1 that rests on passages of" in str(model.received[5])
    assert "nobody looks.[^1^] [not checked]" in report.markdown


def test_report_sentence_that_stands_twice_cites_what_the_judge_names_in_both_places() -> None:
    narrative = "Both send messages by a port.[^1^] Beta is new.[^2^] Both send messages by a port."
    both = json.dumps(
        {
            "verdicts": [
                {"sentence": n, "label": "supported", "why": "", "passages": [n], "probability": 1}
                for n in (1, 2)
            ]
        }
    )
    script = [*SCRIPT[:3], f"{narrative}[^2^]", both, SCRIPT[4]]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools()).report_sync()

    pages = [each.passage.url for each in report.citations if each.sentence.startswith("Both")]
    assert set(pages) == {ALPHA}
    assert report.markdown.count("by a port.[^1^]") == 2


def test_report_sentence_that_stands_twice_without_a_source_is_marked_once_in_each_place() -> None:
    narrative = "Gamma is best.[^9^] It uses port 4711.[^1^] Gamma is best.[^9^]"
    judged = verdicts("supported")
    script = [*SCRIPT[:3], narrative, judged, SCRIPT[4]]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools()).report_sync()

    assert report.markdown.count("Gamma is best. [unsupported]") == 2
    assert "[unsupported] [unsupported]" not in report.markdown


def test_report_sentence_without_a_verdict_is_asked_for_again_and_then_counted() -> None:
    report, judge = judged_by([verdicts("supported"), verdicts("supported", "supported")])

    assert "has no verdict on sentence 2" in judge.received[1][-1]["content"]
    assert "The judging model did not judge 1 sentence." in report.markdown
    assert "Beta encrypts every message.[^2^] [not checked]" in report.markdown


def test_report_sentence_that_was_judged_is_not_judged_again_in_the_next_iteration() -> None:
    said = "The alpha protocol uses port 4711.[^1^]"
    script = [
        *SCRIPT[:2], plan(("read", {"url": ALPHA})), said, evaluation({"alpha": 0.2}),
        plan(("read", {"url": BETA})), f"{said} Beta encrypts every message.[^2^]", SCRIPT[4],
    ]  # fmt: skip
    judge = ScriptedModel([verdicts("supported"), verdicts("supported")])
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools(), judge=judge).report_sync()

    assert report.stop_reason == "done"
    assert "uses port 4711" not in judge.received[1][-1]["content"].partition("Sentences:")[2]
    assert len(report.citations) == 2


def test_judge_that_the_budget_keeps_from_judging_leaves_sentences_not_checked() -> None:
    model = ScriptedModel([*SCRIPT[:4], verdicts("supported", "supported", "supported")])
    researcher = Researcher("r", model, ["alpha"], tools(), budget=Budget(model_calls=4))
    report = researcher.report_sync()

    assert report.stop_reason == "budget"
    assert "It was written in 1999. [unsupported]" in report.markdown
    assert "The alpha protocol uses port 4711.[^1^] [not checked]" in report.markdown


SECTIONS = {
    "pay": "Employees are paid for 12 weeks of sickness in a year.",
    "note": "A fit note is needed after 7 days of sickness.",
    "meeting": "The manager meets an employee after a month.",
}


async def read_handbook(url: str) -> Resource:
    """Read the handbook.

    Args:
        url: where it is
    """
    parts, text = [], ""
    for anchor, said in SECTIONS.items():
        parts.append(Section(len(text), anchor, anchor))
        text += f"{said}\n\n"
    return Resource("http://web.test/handbook", "Handbook", True, text.strip(), parts)


PAID = "Sick employees get paid for 12 weeks in a year of sickness."


def handbook(*answers: str, **options: Any) -> Report:
    said = [plan(("read_handbook", {"url": "x"})), *answers, evaluation({"sick pay": 0.95})]
    return Researcher(
        "r", ScriptedModel(said), ["sick pay"], [read_handbook], **options
    ).report_sync()


def test_report_sentence_that_another_section_of_its_page_says_cites_that_section() -> None:
    report = handbook(f"{PAID}[^2^] They get 99 weeks of pay.[^2^]", judge=False)

    assert f"{PAID}[^1^] [not checked] They get 99 weeks of pay. [unsupported]" in report.markdown
    assert [each.passage.url.partition("#")[2] for each in report.citations] == ["pay"]


def test_judge_is_shown_first_the_section_of_the_page_that_says_more() -> None:
    judged = verdicts("supported", passages=(1,))
    script = [plan(("read_handbook", {"url": "x"})), f"{PAID}[^2^]", judged]
    model = ScriptedModel([*script, evaluation({"sick pay": 0.95})])
    report = Researcher("r", model, ["sick pay"], [read_handbook]).report_sync()

    asked = model.received[2][-1]["content"]
    assert asked.index(SECTIONS["pay"]) < asked.index(SECTIONS["note"])
    assert SECTIONS["meeting"] not in asked
    assert [each.passage.text for each in report.citations] == [SECTIONS["pay"]]


def test_report_with_a_judging_model_that_fails_leaves_sentences_not_checked_and_says_so() -> None:
    report, _ = judged_by(["no JSON"] * 40)

    assert [each.sentence for each in report.citations] == [
        "The alpha protocol uses port 4711.",
        "Beta encrypts every message.",
    ]
    assert all(each.support and each.support.label == "not checked" for each in report.citations)
    assert "The judging model did not judge" in report.markdown


@pytest.mark.parametrize("label", ("partly", "unsupported"))
def test_research_expertise_without_a_sentence_that_the_judge_supports_is_at_most_one_half(
    label: str,
) -> None:
    report, _ = judged_by([verdicts(*[label] * 3)] * 2, iterations=2)

    assert report.stop_reason != "done"
    assert [each.expertise for each in report.objectives] == [0.5]


def test_research_expertise_counts_whole_once_the_judge_supports_one_sentence() -> None:
    report, _ = judged_by([verdicts("supported", "partly", "partly")], iterations=2)

    assert report.stop_reason == "done"


def test_judge_is_not_asked_again_when_a_run_is_resumed(tmp_path: Any) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        first, judge = judged_by([verdicts(*["supported"] * 3)], journal=journal)
        again = Researcher(
            "r", ScriptedModel([]), ["alpha"], tools(), judge=ScriptedModel([]), journal=journal,
        ).report_sync(first.run_id)  # fmt: skip

    assert again.markdown == first.markdown
    assert judge.received


def test_researcher_wrong_judge_is_refused() -> None:
    with pytest.raises(DefinitionError):
        Researcher("r", None, ["alpha"], tools(), judge=7)  # type: ignore[arg-type]


def test_sentences_of_different_sources_that_differ_stand_side_by_side_in_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PAGES, LAMP.url, ("A lamp", LAMP.text))
    monkeypatch.setitem(PAGES, OTHER.url, ("Another lamp", OTHER.text))
    narrative = (
        "The lamp reaches at least 100 metres at night.[^1^] It is red. "
        "The lamp reaches 9000 metres at night.[^2^]"
    )
    reads = plan(("read", {"url": LAMP.url}), ("read", {"url": OTHER.url}))
    script = [*SCRIPT[:2], reads, narrative, SCRIPT[4]]
    report = Researcher("r", ScriptedModel(script), ["alpha"], tools(), judge=False).report_sync()

    assert [remark for _, _, remark in report.differing] == ["they state different numbers"]
    _, _, section = report.markdown.partition("## Where sources differ\n\n")
    read = f"read {report.citations[0].passage.fetched_at[:10]}"
    assert section.startswith(
        f"- The lamp reaches at least 100 metres at night. [^1^], {read} / "
        f"The lamp reaches 9000 metres at night. [^2^], {read} (they state different numbers"
    )


def told_of_one(monkeypatch: pytest.MonkeyPatch, other: str) -> Report:
    """A report of two pages that were read, of which the model tells of the first alone."""
    read_later = Passage.of(OTHER.url, other, DAY)
    monkeypatch.setitem(PAGES, LAMP.url, ("A lamp", LAMP.text))
    monkeypatch.setitem(PAGES, OTHER.url, ("Another lamp", read_later.text))
    reads = plan(("read", {"url": LAMP.url}), ("read", {"url": OTHER.url}))
    told = f"**{LAMP.text}**[^1^]"
    script = [*SCRIPT[:2], reads, told, SCRIPT[4]]
    return Researcher("r", ScriptedModel(script), ["alpha"], tools(), 2, judge=False).report_sync()


def test_report_names_the_source_that_says_otherwise_though_the_model_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = "As a test found, the lamp reaches at least 80 metres at night. It is red."
    report = told_of_one(monkeypatch, other)

    assert "supported by 1 source; 1 source says otherwise." in report.markdown
    said = "As a test found, the lamp reaches at least 80 metres at night."
    assert report.differing == [(LAMP.text, said, "they state different numbers")]
    assert f"{said} [^2^], read " in report.markdown
    assert [each.number for each in report.citations] == [1, 2]
    assert f"[^2^]: Another lamp – <{OTHER.url}>" in report.markdown
    assert report.objectives[0].expertise == 0.7


def test_judge_is_shown_the_nearest_sentence_of_another_page_and_may_say_that_it_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, other = "Dogs are allowed on the beach.", "Dogs are forbidden on the beach."
    monkeypatch.setitem(PAGES, LAMP.url, ("A guide", said))
    monkeypatch.setitem(PAGES, OTHER.url, ("A bylaw", f"It rains. {other} It is long."))
    reads = plan(("read", {"url": LAMP.url}), ("read", {"url": OTHER.url}))
    verdict = json.loads(verdicts("supported", passages=(1,)))
    verdict["verdicts"][0]["otherwise"] = [3]
    judge = ScriptedModel([json.dumps(verdict)])
    script = [*SCRIPT[:2], reads, f"{said}[^1^]", SCRIPT[4]]
    report = Researcher(
        "r", ScriptedModel(script), ["alpha"], tools(), 2, judge=judge
    ).report_sync()

    asked = judge.received[0][-1]["content"]
    assert f'Passage 3, called "A bylaw":\n| {other}' in asked.replace("It rains. ", "")
    assert "(passages 1; compare with 3)" in asked
    (first, second, remark), *_ = report.differing
    assert (first, remark) == (said, "they say different things, as a model judged")
    assert other in second
    assert "1 source says otherwise" in report.markdown
    assert report.objectives[0].expertise == 0.7


@pytest.mark.parametrize(
    "other",
    (
        "The lamp reaches at least 0.1 km at night.",
        "The lamp reaches at least 100 metres at night. The lamp reaches at least 40 at day.",
        "The old lamp of Alba reaches at least 12 metres at night.",
        "In 2019 the lamp had 80 visitors.",
    ),
)
def test_report_does_not_say_that_sources_differ_that_speak_of_other_things_or_agree(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    report = told_of_one(monkeypatch, other)

    assert report.differing == []
    assert "otherwise" not in report.markdown
    assert report.objectives[0].expertise == 0.95


@pytest.mark.parametrize(
    ("one", "other", "remark"),
    (
        ("The bridge was opened in 1931.", "The bridge was opened in 1932.", "different numbers"),
        ("The bridge was opened in May 1931.", "It was opened in June 1931.", ""),
        ("The bridge was opened on 5 May.", "The bridge was opened on 6 June.", "different dates"),
        ("The walk takes 2 hours in all.", "In all the walk takes 120 minutes.", ""),
        ("The bridge was opened in 1931.", "The town was founded in 1210.", ""),
        ("Lyon has 12 stations.", "Lyon has 900 trams and many buses.", ""),
        (
            "The wind farm Borkum has 32 turbines. It went into operation in 2021.",
            "The wind farm Sandbank has 72 turbines. It went into operation in 2017.",
            "",
        ),
        (
            "On 1 April the billing service was unavailable for 25 minutes.",
            "On 30 October the webshop service was unavailable for 12 minutes.",
            "",
        ),
        (
            "“If a shell is begun with the option --login, it reads the startup files.”",
            "“If a shell is begun with the option --login, it does not read the startup files. It "
            "reads ENV.”",
            "",
        ),
        (
            "“**A mount point is a folder.** For details see section 4.5.”",
            "“A mount point is a folder. **For details see section 5.13.**”",
            "",
        ),
        (
            "“**The bridge was opened in 1931.** It has 12 arches.”",
            "“It has 12 arches. **The bridge was opened in 1932.**”",
            "different numbers",
        ),
    ),
)
def test_sentences_differ_if_they_say_different_things_of_one_matter(
    one: str, other: str, remark: str
) -> None:
    found = differing_citations([Citation(1, one, LAMP), Citation(2, other, OTHER)])

    assert [remark in why for *_, why in found] == ([True] if remark else [])


def test_page_that_says_otherwise_twice_is_named_for_both_sentences() -> None:
    light, weight = "The lamp reaches 100 metres at night.", "The lamp weighs 40 kg with its oil."
    others = "The lamp reaches 9000 metres at night.", "The lamp weighs 90 kg with its oil."
    one, other = (Passage.of(each.url, text, DAY) for each, text in (
        (LAMP, f"{light} {weight}"), (OTHER, " ".join(others))
    ))  # fmt: skip
    cited = [Citation(1, light, one), Citation(1, weight, one), Citation(2, others[0], other)]
    found = [(a.sentence, b.sentence) for a, b, _ in differing_citations(cited, [one, other])]

    assert found == [(light, others[0]), (weight, others[1])]


def test_sentences_of_a_page_differ_if_it_was_read_again_with_another_number() -> None:
    later = replace(LAMP, text="It reaches 250 metres at night.", fetched_at=f"{DAY[:11]}15:00:00Z")
    earlier = Citation(1, "The lamp reaches 100 metres at night.", LAMP)
    found = [
        differing_citations([earlier, Citation(2, "The lamp reaches 250 metres at night.", of)])
        for of in (later, LAMP)
    ]

    remark = "they state different numbers in one page, read at two times"
    assert [[each[2] for each in pairs] for pairs in found] == [[remark], []]


@pytest.mark.parametrize(
    "piece", ("[^", "[", " ", "[un", "[unsupported", "[^1", "[^1^", "]", "[unsupported]")
)
def test_citation_check_takes_a_time_that_grows_with_the_text_alone(piece: str) -> None:
    start = time.process_time()
    check(piece * (60_000 // len(piece)), {1: LAMP})
    assert time.process_time() - start < 2

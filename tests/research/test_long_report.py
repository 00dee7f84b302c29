"""A report that is longer than a model reads: outline, sections with their sources, summary."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget, Journal, Person, ScriptedModel
from moothall.foundation.errors import ContextOverflow, DefinitionError
from moothall.memory import estimate_tokens
from moothall.models.protocol import ModelReply, Usage
from moothall.research import Heading, ProposedPlan, Report, Researcher, ResearchTask, Resource
from research.small_web import evaluation, plan

CITIES = ("Aarau", "Bern", "Chur", "Davos", "Erlen", "Flims", "Glarus", "Horgen", "Ilanz", "Jona")
FACTS = {city: f"The bridge of {city} was closed in {1900 + n}." for n, city in enumerate(CITIES)}
TOPIC = "Which bridges were closed?"
WORDS = "and so the river went on below it as it had always done before "


async def read(page: str) -> Resource:
    """Read the page of a city."""
    city = page.partition(" ")[0]
    more = " It was painted green." if page.endswith(" again") else ""
    return Resource(f"http://web.test/{page}", city, True, FACTS[city] + more + " " + WORDS * 20)


class Writer:
    """A model that writes what it is asked for, so many words for each source."""

    def __init__(
        self,
        plans: list[list[str]],
        words: int = 0,
        rated: tuple[float, ...] = (),
        context: int = 4000,
    ) -> None:
        self.plans = plans
        self.words = words
        self.rated = [*rated]
        self.asked: Counter[str] = Counter()
        self.sections: list[str] = []
        self.model = ScriptedModel(self.answer, context_tokens=context, max_tokens=2000)

    def answer(self, messages: list[dict[str, Any]], actions: Any) -> str:
        asks, told = (str(each["content"]) for each in messages[:2])
        kind = re.findall(r"\n\n(\w+ \w+ \w+)", asks)[0]
        self.asked[kind] += 1
        if kind == "Outline the report":
            listed = [{"heading": f"The bridge of {city}", "about": city} for city in CITIES]
            return json.dumps({"sections": listed})
        if kind == "Plan the next":
            pages = self.plans.pop(0) if self.plans else []
            return plan(*(("read", {"page": page}) for page in pages))
        if kind == "Evaluate this research":
            return evaluation({TOPIC: self.rated.pop(0) if self.rated else 0.95})
        if kind == "Write the summary":
            cited = re.findall(r"^\| (The bridge of .*?\[\^\d+\^\])", told, re.MULTILINE)
            return "In short: " + " ".join(cited[:3])
        if kind == "Write the section":
            self.sections.append(re.findall(r'the section "(.*?)"', asks)[0])
        before = told.partition("so far:\n")[2].partition("\n\nNew sources")[0]
        so_far = "\n".join(line.removeprefix("| ").removeprefix("|") for line in before.split("\n"))
        if "What is written already" in asks or so_far == "(nothing)":
            so_far = ""
        made = [so_far.strip()]
        for number, said in re.findall(r"Source \[\^(\d+)\^\].*\n\| (The bridge of .*?\.)", told):
            made += [f"{said}[^{number}^]", WORDS * (self.words // 13)]
        if "It was painted green." in told:
            made.append(f"It was painted green.[^{number}^]")
        return "\n\n".join(filter(None, made))


def long_report(writer: Writer, **options: Any) -> Report:
    options = {"length": 10_000, **options}
    researcher = Researcher("r", writer.model, TOPIC, [read], max_tasks=10, **options, judge=False)
    return researcher.report_sync()


def section_of(markdown: str, city: str) -> str:
    return markdown.partition(f"## The bridge of {city}\n")[2].partition("\n## ")[0]


def test_report_of_ten_thousand_words_keeps_its_beginning_and_cites_in_each_section() -> None:
    plans = [list(CITIES), ["Jona again"]]
    whole = long_report(Writer(plans[:1], 1000, context=16_000))
    writer = Writer(plans, 1000, (0.5, 0.95), context=16_000)
    report = long_report(writer)
    assert report.stop_reason == "done"
    assert len(report.markdown.split()) > 10_000
    assert re.findall("^## The bridge of (.*)$", report.markdown, re.MULTILINE) == list(CITIES)
    for city in CITIES:
        assert f"{FACTS[city]}[^" in section_of(report.markdown, city)
    # The second iteration wrote one section anew, and left the others as they were.
    assert writer.sections.count("The bridge of Jona") == 2
    for city in CITIES[:-1]:
        assert section_of(report.markdown, city) == section_of(whole.markdown, city)
    assert "It was painted green.[^" in section_of(report.markdown, "Jona")
    assert {each.passage.title for each in report.citations} == set(CITIES)
    assert report.markdown.index("In short: ") < report.markdown.index("## The bridge of Aarau")
    assert report.notes == []


def test_report_of_sections_that_are_longer_than_a_prompt_keeps_what_is_written() -> None:
    writer = Writer([list(CITIES[:3]), ["Aarau again"]], 3000, (0.5, 0.95))
    report = long_report(writer, outline=["The bridge of Aarau", "The bridge of Bern"])
    aarau = section_of(report.markdown, "Aarau")
    assert aarau.strip().startswith(f"{FACTS['Aarau']}[^")
    assert re.search(r"It was painted green\.\[\^\d\^\] \[not checked\]$", aarau.rstrip())
    assert len(aarau.split()) > 3000
    assert writer.asked["Outline the report"] == 0


@pytest.mark.parametrize("outline", (["Aarau in C#", "The bridge of Bern"], True))
def test_report_keeps_a_heading_that_ends_in_a_sign_in_its_place(outline: Any) -> None:
    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        if "Outline the report" in str(messages[0]["content"]):
            return json.dumps({"sections": ["## Aarau in C#", "**The bridge of Bern**"]})
        return writer.answer(messages, actions)

    writer = Writer([list(CITIES[:2]), ["Aarau again"]], 0, (0.5, 0.95))
    model = ScriptedModel(answer, context_tokens=4000)
    report = Researcher("r", model, TOPIC, [read], outline=outline, judge=False).report_sync()
    headings = re.findall("^## (.*)$", report.markdown, re.MULTILINE)
    assert headings == ["Aarau in C#", "The bridge of Bern", "Sources"]
    assert report.markdown.count("It was painted green.[^") == 1


def test_report_without_a_length_gets_sections_once_it_outgrows_the_prompt() -> None:
    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        asks = str(messages[0]["content"])
        if "Write the research report" in asks:
            parts = [f"## {city}\n\n{FACTS[city]}[^{n}^]\n\n{WORDS * 20}" for n, city in written]
            return "\n\n".join(["# Bridges", *parts])
        return writer.answer(messages, actions)

    written = list(enumerate(CITIES[:4], 1))
    writer = Writer([list(CITIES[:4]), ["Davos again"]], 0, (0.5, 0.95))
    model = ScriptedModel(answer, context_tokens=4000)
    report = Researcher("r", model, TOPIC, [read], judge=False).report_sync()
    assert re.findall("^## (.*)$", report.markdown, re.MULTILINE) == [*CITIES[:4], "Sources"]
    assert report.markdown.startswith("# Bridges\n")
    first = report.markdown.partition("## Aarau\n")[2].partition("\n## ")[0]
    cited = f"{FACTS['Aarau']}[^1^] [not checked]"
    assert first.strip() == f"{cited}\n\n{(WORDS * 20).strip()} [no source]"
    assert "Aarau" not in writer.sections
    assert writer.sections[-1] == "Davos"


def test_long_report_takes_at_most_half_of_the_context_for_a_prompt() -> None:
    writer = Writer([list(CITIES)], context=5000)
    long_report(writer, outline=["Bridges"])
    sizes = [
        sum(estimate_tokens(str(each["content"])) for each in messages)
        for messages in writer.model.received
    ]
    assert max(sizes) <= 5000 // 2


def test_long_report_shows_every_result_in_a_prompt() -> None:
    writer = Writer([list(CITIES)])
    long_report(writer, outline=["Bridges", "Rivers", "Boats"])
    told = "\n".join(str(each) for each in writer.model.received)
    assert all(
        told.count(f"called \\'{city}\\'") or told.count(f'called "{city}"') for city in CITIES
    )


def test_long_report_halves_its_prompts_for_a_context_smaller_than_stated() -> None:
    def answer(messages: list[dict[str, Any]], actions: Any) -> str:
        if str(messages).count("Source [^") > 2:
            raise ContextOverflow("too long")
        return writer.answer(messages, actions)

    writer = Writer([list(CITIES[:8])])
    model = ScriptedModel(answer, context_tokens=100_000)
    report = Researcher("r", model, TOPIC, [read], judge=False).report_sync()
    assert report.stop_reason == "done"
    assert {each.passage.title for each in report.citations} == set(CITIES[:8])


def test_report_says_what_the_budget_kept_from_being_narrated() -> None:
    writer = Writer([list(CITIES)])
    model = writer.model
    report = Researcher("r", model, TOPIC, [read], 1, max_tasks=10, judge=False).report_sync()
    calls = len(model.received)
    writer = Writer([list(CITIES)])
    budget = Budget(model_calls=calls - 3)
    report = Researcher(
        "r", writer.model, TOPIC, [read], 1, max_tasks=10, budget=budget, judge=False
    ).report_sync()
    assert report.stop_reason == "budget"
    assert re.search(r"\d+ passages? of 10 not narrated", report.markdown)


@pytest.mark.parametrize("calls", (2, 5, 9, 13))
def test_sections_that_a_limit_cut_off_go_on_and_nothing_is_asked_twice(
    calls: int, tmp_path: Path
) -> None:
    whole = long_report(Writer([list(CITIES)], 100))
    asked: Counter[str] = Counter()
    for limit in (calls, 100):
        writer = Writer([list(CITIES)], 100)
        with Journal(tmp_path / "j") as journal:
            parts = (TOPIC, [read])
            researcher = Researcher(
                *("r", writer.model, *parts),
                max_tasks=10,
                length=10_000,
                journal=journal,
                judge=False,
            )
            report = asyncio.run(researcher.report("run", budget=Budget(model_calls=limit)))
        asked += writer.asked
    assert report.stop_reason == "done"
    assert report.markdown == whole.markdown
    assert asked["Write the section"] == len(CITIES)


# -- a model for each step, and how it writes ------------------------------------------------------


def test_report_steps_may_have_models_of_their_own_which_the_foot_names() -> None:
    cheap = ScriptedModel([plan(("read", {"page": "Bern"}))], name="local:cheap")
    judge = ScriptedModel([evaluation({TOPIC: 0.95})], name="local:judge")
    main = ScriptedModel([f"{FACTS['Bern']}[^1^]"], name="local:main")
    models = {"plan": cheap, "evaluate": judge}
    report = Researcher("r", main, TOPIC, [read], models=models, judge=False).report_sync()
    assert report.stop_reason == "done"
    assert [len(each.received) for each in (cheap, main, judge)] == [1, 1, 1]
    assert report.cost == 0


def test_run_with_a_model_for_each_step_continues_with_the_answers_that_are_left(
    tmp_path: Path,
) -> None:
    for limit in (3, 9):
        plans = [plan(("read", {"page": city})) for city in ("Bern", "Chur")]
        cheap = ScriptedModel(plans, name="cheap")
        said = [f"{FACTS['Bern']}[^1^]", evaluation({TOPIC: 0.1})]
        said += [f"{FACTS['Chur']}[^2^]", evaluation({TOPIC: 0.95})]
        with Journal(tmp_path / "j") as journal:
            researcher = Researcher(
                *("r", ScriptedModel(said), TOPIC, [read]),
                models={"plan": cheap},
                journal=journal,
                judge=False,
            )
            report = asyncio.run(researcher.report("run", budget=Budget(model_calls=limit)))
    assert report.stop_reason == "done"
    assert {each.passage.title for each in report.citations} == {"Bern", "Chur"}


def test_research_step_without_a_model_is_by_rules() -> None:
    async def search(query: str) -> Resource:
        """Search the pages."""
        return await read("Bern")

    main = ScriptedModel([f"{FACTS['Bern']}[^1^]", evaluation({"closed bridge of Bern": 1.0})])
    topic = "closed bridge of Bern"
    report = Researcher(
        "r", main, topic, [search], models={"plan": None}, judge=False
    ).report_sync()
    assert report.stop_reason == "done"


def test_length_tone_and_language_are_asked_for_and_money_stands_at_the_foot() -> None:
    said = [plan(("read", {"page": "Bern"})), f"{FACTS['Bern']}[^1^]", evaluation({TOPIC: 0.95})]
    script = [ModelReply(each, usage=Usage(1_000_000, 10_000)) for each in said]
    model = ScriptedModel(script, name="openai:gpt-4o")
    style: dict[str, Any] = {"length": 200, "tone": "for children", "language": "French"}
    report = Researcher("r", model, TOPIC, [read], **style, judge=False).report_sync()
    asks = str(model.received[1][0]["content"])
    assert "Write about 200 words. Tone: for children. Write in French" in asks
    assert report.cost == pytest.approx(3 * (2.5 + 0.1))
    foot = "It took 3,030,000 tokens (3,000,000 in, 30,000 out) of openai:gpt-4o: US$ 7.8000."
    assert foot in report.markdown


def test_money_of_a_model_whose_price_is_not_known_is_said_not_to_be() -> None:
    said = [plan(("read", {"page": "Bern"})), f"{FACTS['Bern']}[^1^]", evaluation({TOPIC: 0.95})]
    script = [ModelReply(each, usage=Usage(100, 10)) for each in said]
    model = ScriptedModel(script, name="openai:newest")
    report = Researcher("r", model, TOPIC, [read], judge=False).report_sync()
    assert report.cost is None
    assert "of openai:newest, at a price that is not known." in report.markdown


@pytest.mark.parametrize(
    ("option", "given"),
    (
        *(("length", each) for each in (0, -1, 1.5, "long", True)),
        *(("tone", each) for each in (5, "a\nb", "x" * 201)),
        *(("language", each) for each in (None, "a\nb")),
        *(("outline", each) for each in ("one", [""], ["#"], 5, ["A", "B", "A"], ["A", " A #"])),
        *(("models", each) for each in ({"research": None}, {"plan": 5}, "local")),
        *(("context_tokens", each) for each in (0, "8k")),
        *(("review_plan", each) for each in (5, "yes")),
    ),
)
def test_researcher_option_that_is_wrong_is_refused_with_what_it_must_be(
    option: str, given: Any
) -> None:
    with pytest.raises(DefinitionError, match=r"(must be|must have|whole number|model)"):
        Researcher("r", None, TOPIC, [read], **{option: given})


# -- a person sees the plan ------------------------------------------------------------------------


def reviewed(review: Any, plans: list[list[str]], **options: Any) -> tuple[Report, Writer]:
    writer = Writer(plans)
    return long_report(writer, review_plan=review, outline=["Bridges"], **options), writer


def test_review_plan_sees_plan_and_outline_before_anything_is_read() -> None:
    seen: list[str] = []

    def review(proposed: ProposedPlan) -> None:
        seen.append(str(proposed))

    report, _ = reviewed(review, [["Bern"]])
    assert seen == ['## Bridges\n- read {"page": "Bern"}']
    assert {each.passage.title for each in report.citations} == {"Bern"}


def test_review_plan_changes_tasks_and_outline() -> None:
    async def review(proposed: ProposedPlan) -> ProposedPlan:
        (heading,) = proposed.outline
        heading.heading = "All bridges"
        task = ResearchTask("read", {"page": "Chur"}, "")
        return ProposedPlan(proposed.objectives, [task], proposed.outline)

    report, _ = reviewed(review, [["Bern"]])
    assert {each.passage.title for each in report.citations} == {"Chur"}
    assert "## All bridges" in report.markdown


def test_review_plan_that_repeats_a_heading_has_one_section_with_all_passages() -> None:
    def review(proposed: ProposedPlan) -> None:
        proposed.outline = [Heading("Bridges", "Bern"), Heading("Bridges", "Chur")]

    report, _ = reviewed(review, [["Bern", "Chur"]])
    assert report.markdown.count("## Bridges\n") == 1
    assert all(f"{FACTS[city]}[^" in report.markdown for city in ("Bern", "Chur"))


def test_review_plan_in_words_has_the_plan_made_anew() -> None:
    answers = iter(("Look at Chur instead.", True))

    def review(proposed: ProposedPlan) -> Any:
        return next(answers)

    report, writer = reviewed(review, [["Bern"], ["Chur"]])
    assert {each.passage.title for each in report.citations} == {"Chur"}
    assert "Look at Chur instead." in str(writer.model.received[1])


def test_review_plan_refused_reads_nothing() -> None:
    report, _ = reviewed(lambda proposed: False, [["Bern"]])
    assert (report.stop_reason, report.detail) == ("cancelled", "its plan was not accepted")
    assert report.citations == []


class Desk:
    """A person who answers in these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[str] = []

    async def ask(self, request: Any, told: Any, fault: str) -> str:
        self.asked.append(str(request.content))
        return self.lines.pop(0)


@pytest.mark.parametrize(
    ("line", "title"),
    (
        ("yes", "Bern"),
        ('## Bridges\n- read {"page": "Chur"}', "Chur"),
        ("- read Chur", "Chur"),
        ("Take Chur.", "Chur"),
    ),
)
def test_review_plan_by_a_person_who_answers_in_words_or_lines(line: str, title: str) -> None:
    desk = Desk(line, "yes")
    report, _ = reviewed(Person("Ann", desk=desk), [["Bern"], ["Chur"]])
    assert {each.passage.title for each in report.citations} == {title}
    assert '- read {"page": "Bern"}' in desk.asked[0]


def test_review_plan_that_was_accepted_is_not_asked_for_again_when_the_run_goes_on(
    tmp_path: Path,
) -> None:
    seen: list[str] = []
    for limit in (2, 100):
        writer = Writer([["Bern"]])
        with Journal(tmp_path / "j") as journal:
            researcher = Researcher(
                *("r", writer.model, TOPIC, [read]),
                outline=["Bridges"],
                journal=journal,
                review_plan=lambda proposed: seen.append(str(proposed)),
                judge=False,
            )
            report = asyncio.run(researcher.report("run", budget=Budget(model_calls=limit)))
    assert report.stop_reason == "done"
    assert len(seen) == 1


def test_review_plan_of_the_extractive_form_takes_lines_as_queries() -> None:
    asked: list[str] = []

    async def search(query: str) -> Resource:
        """Search the pages."""
        asked.append(query)
        return await read("Bern")

    answers = iter(("the bridge of Bern\nits closing", None))
    Researcher(
        *("r", None, "closed bridge of Bern", [search], 1),
        review_plan=lambda proposed: next(answers),
    ).report_sync()
    assert asked == ["the bridge of Bern", "its closing"]


def test_review_plan_may_leave_more_tasks_than_an_iteration_has_at_most() -> None:
    asked: list[str] = []

    async def search(query: str) -> Resource:
        """Search the pages."""
        asked.append(query)
        return await read("Bern")

    def review(proposed: ProposedPlan) -> None:
        proposed.tasks = [ResearchTask("search", {"query": each}, "") for each in "abc"]

    Researcher("r", None, TOPIC, [search], 1, max_tasks=2, review_plan=review).report_sync()
    assert asked == ["a", "b", "c"]

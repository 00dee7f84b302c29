"""What a model answers otherwise than it was asked: what can be used is used, the rest by rules."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from moothall import ScriptedModel
from moothall.models.protocol import Call, ModelReply
from moothall.research import Report, Researcher, Resource
from research.small_web import ALPHA, BETA, PAGES, evaluation, plan

TASKS = [
    {"tool": "search", "args": {"query": "alpha"}, "reasoning": "first"},
    {"tool": "read", "args": {"url": ALPHA}, "reasoning": "then"},
]
PLAN = json.dumps({"tasks": TASKS})
TEXT = "The alpha protocol uses port 4711.[^1^]"
RATED = {"topic": "Which port does alpha use?", "expertise": 0.95}
EVALUATED = json.dumps({"objectives": [RATED], "generated_objectives": [], "remark": "Fine."})


def many(count: int) -> str:
    """A plan of more tasks than were asked for, the first of which reads."""
    return json.dumps({"tasks": [TASKS[1], *[TASKS[0]] * (count - 1)]})


PLANS = {
    "words before a fence": f"Sure! Here is the plan:\n```json\n{PLAN}\n```\nGood luck.",
    "words around bare JSON": f"The plan is {PLAN} and nothing else.",
    "thinking before": f'<think>Perhaps {{"tasks": [}} or not.</think>\n{PLAN}',
    "thinking that was opened in the prompt": f"I search first.\n</think>\n{PLAN}",
    "thinking without an end": f"<think>I shall answer: {PLAN}",
    "a channel of analysis": f"<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>{PLAN}",
    "a draft, then the answer": f'Draft: {{"tasks": [{{"tool": "fly"}}]}}\nFinal: {PLAN}',
    "a fence for each task": "\n".join(f"```json\n{json.dumps(each)}\n```" for each in TASKS),
    "a line for each task": "\n".join(map(json.dumps, TASKS)),
    "nine tasks for eight": many(9),
    "a hundred tasks": many(100),
    "a field more": json.dumps({"thoughts": "…", "tasks": [{**TASKS[1], "priority": 1}]}),
    "no reasoning": json.dumps({"tasks": [{"tool": "read", "args": {"url": ALPHA}}]}),
    "a bare list": json.dumps(TASKS),
    "one task that is no list": json.dumps({"tasks": TASKS[1]}),
    "tasks within a plan": json.dumps({"plan": {"goal": "know", "tasks": TASKS}}),
    "tasks as JSON in a text": json.dumps({"tasks": json.dumps(TASKS)}),
    "one wrong task of three": json.dumps({"tasks": [{"tool": "fly", "args": {}}, *TASKS]}),
    "a wrong argument of one task": json.dumps({"tasks": [{"tool": "read", "args": {}}, *TASKS]}),
    "arguments as JSON in a text": json.dumps(
        {"tasks": [{"tool": "read", "args": json.dumps({"url": ALPHA})}]}
    ),
    "an argument without its name": json.dumps({"tasks": [{"tool": "read", "args": ALPHA}]}),
    "a comma too many": PLAN.replace('"first"}', '"first",}').replace("]}", ",]}"),
    "comments": PLAN.replace("[", "[ // what to do\n", 1),
    "a line break in a text": PLAN.replace("first", "first,\nfor a start"),
    "cut off at the end": PLAN[:-1] + ', {"tool": "search", "args": {"que',
    "no brackets at the end": PLAN[:-2],
    "curly quotes": PLAN.replace('"tasks"', "“tasks”"),
}
EVALUATIONS: dict[str, Any] = {
    "a topic without its mark": {"objectives": [{**RATED, "topic": "which port does alpha use"}]},
    "a topic with a number": {"objectives": [{**RATED, "topic": "1. Which port does alpha use?"}]},
    "one that is no list": {"objectives": RATED},
    "the only one without its topic": {"objectives": [{"expertise": 0.95}]},
    "a field more": {
        "thoughts": "…",
        "objectives": [RATED],
        "generated_objectives": [],
        "remark": 1,
    },
    "smaller objectives as objects": {
        "objectives": [RATED],
        "generated_objectives": [{"topic": "x"}],
    },
    "a bare list": [RATED],
    "inside another": {"evaluation": {"objectives": [RATED]}},
    "an objective that nobody has": {"objectives": [{"topic": "Bees", "expertise": 0.1}, RATED]},
}
NARRATIVES = {
    "thinking before": f"<think>Alpha is red.</think>\n\n{TEXT}",
    "thinking that was opened in the prompt": f"Alpha is red, I think.\n</think>\n{TEXT}",
    "a fence around it": f"Here is the report:\n\n```markdown\n{TEXT}\n```",
    "words to the user before": f"Sure, here is the report:\n\n{TEXT}",
    "a heading of words before": f"Here's the updated narrative based on the passages:\n\n{TEXT}",
}


async def search(query: str) -> list[Resource]:
    """Search the web."""
    return [Resource(url, title) for url, (title, _) in PAGES.items()]


async def read(url: str) -> Resource:
    """Read a page."""
    return Resource(url, PAGES[url][0], True, PAGES[url][1])


def report_of(*answers: Any, iterations: int = 1, objectives: Any = None) -> Report:
    topics = objectives or ["Which port does alpha use?"]
    script = list(answers)
    return Researcher(
        "r", ScriptedModel(script), topics, [search, read], iterations, judge=False
    ).report_sync()


def assert_done(report: Report) -> None:
    assert (report.stop_reason, report.detail) == ("done", "")
    assert [each.sentence for each in report.citations] == ["The alpha protocol uses port 4711."]
    assert report.notes == []
    assert report.unsupported == []


@pytest.mark.parametrize("kind", PLANS)
def test_research_plan_in_another_form_is_carried_out(kind: str) -> None:
    assert_done(report_of(PLANS[kind], TEXT, EVALUATED))


@pytest.mark.parametrize("kind", EVALUATIONS)
def test_research_evaluation_in_another_form_is_read(kind: str) -> None:
    assert_done(report_of(PLAN, TEXT, json.dumps(EVALUATIONS[kind])))


@pytest.mark.parametrize("kind", NARRATIVES)
def test_research_narrative_in_another_form_is_read(kind: str) -> None:
    assert_done(report_of(PLAN, NARRATIVES[kind], EVALUATED))


def test_research_plan_with_a_wrong_argument_is_asked_for_again_with_the_reason() -> None:
    wrong = json.dumps({"tasks": [{"tool": "read", "args": {"link": ALPHA}}]})
    model = ScriptedModel([wrong, PLAN, TEXT, EVALUATED])
    report = Researcher("r", model, RATED["topic"], [search, read], 1, judge=False).report_sync()
    assert_done(report)
    assert "link" in str(model.received[1])


def test_research_plan_as_native_calls_is_carried_out() -> None:
    calls = (Call("1", "read", {"url": ALPHA}), Call("2", "fly", "{}"))
    assert_done(report_of(ModelReply("", calls), TEXT, EVALUATED))


WRONG = ("I cannot.", "[]]]", '{"tasks": 5}', "{" * 5000, '"' * 999, "<think>", "[1] (2) {x}")


@pytest.mark.parametrize("wrong", WRONG)
def test_research_no_answer_usable_rules_take_each_step_and_the_report_says_so(wrong: str) -> None:
    report = report_of(*[wrong] * 2, *["<think>hm"] * 2, *[wrong] * 2, PLAN, *["<think>"] * 2)
    assert report.stop_reason in ("done", "max_iterations")
    assert [each.partition(",")[0] for each in report.notes][:1] == [
        "iteration 1: the plan is by rules"
    ]
    assert "the plan is by rules, as the model's answer" in report.markdown


def test_research_first_plan_without_a_task_is_asked_for_again_and_then_made_by_rules() -> None:
    nothing = '{"tasks": []}'
    assert_done(report_of(nothing, PLAN, TEXT, EVALUATED))
    low = json.dumps({"objectives": [{**RATED, "expertise": 0.1}]})
    report = report_of(nothing, nothing, low, PLAN, TEXT, EVALUATED, iterations=2)
    assert report.stop_reason == "done"
    why = "the model's answer names no task, and nothing was read"
    assert report.notes == [f"iteration 1: the plan is by rules, as {why}"]


def test_research_narrative_that_is_data_without_a_text_is_asked_for_again() -> None:
    assert_done(report_of(PLAN, EVALUATED, TEXT, EVALUATED))
    assert_done(report_of(PLAN, f"```json\n{PLAN}\n```", TEXT, EVALUATED))


def test_research_narrative_unusable_twice_is_quoted_by_rules() -> None:
    report = report_of(PLAN, "", "<think>Hm.</think>", EVALUATED)
    assert "It uses port 4711." in report.citations[0].sentence
    (note,) = report.notes
    assert note.startswith("iteration 1: the narrative is by rules, as the model's answer holds ")
    assert note in report.markdown


def test_research_evaluation_of_one_objective_of_two_is_completed_by_a_second_answer() -> None:
    objectives = ["alpha", "beta"]
    texts = "The alpha protocol uses port 4711.[^1^][^2^]"
    reading = plan(*(("read", {"url": each}) for each in (ALPHA, BETA)))
    searching = plan(("search", {"query": "alpha"}))
    first = [searching, evaluation({"alpha": 0.1, "beta": 0.1})]
    halves = [evaluation({"alpha": 0.9}), evaluation({"beta": 0.95})]
    report = report_of(*first, reading, texts, *halves, iterations=2, objectives=objectives)
    assert [each.expertise for each in report.objectives] == [0.9, 0.95]
    assert report.notes == []


def test_research_evaluation_of_one_objective_of_two_twice_the_other_is_rated_by_rules() -> None:
    searching = plan(("search", {"query": "alpha"}))
    halves = [evaluation({"alpha": 0.3})] * 2
    report = report_of(searching, *halves, objectives=["alpha", "beta"])
    assert [each.expertise for each in report.objectives] == [0.3, 0.0]
    assert "the evaluation is by rules, as the model's answer does not say what" in report.notes[0]


@pytest.mark.parametrize("ambiguous", (1.5, -1, True, "high", "95%", None))
def test_research_expertise_that_is_ambiguous_is_asked_for_again(ambiguous: Any) -> None:
    wrong = json.dumps({"objectives": [{**RATED, "expertise": ambiguous}]})
    assert_done(report_of(PLAN, TEXT, wrong, EVALUATED))


def test_research_understood_without_a_supported_sentence_has_not_reached_its_target() -> None:
    report = report_of(PLAN, "Alpha uses port 9.[^1^]", EVALUATED)
    assert report.stop_reason == "max_iterations"
    assert report.objectives[0].expertise == 0.5
    assert "the targets were reached" not in report.markdown


def test_research_generated_objectives_are_bounded_in_number_and_length() -> None:
    asked = [f"{number} " + "word " * 4000 for number in range(200)]
    model = ScriptedModel(
        [PLAN, TEXT, evaluation({"alpha": 0.1}, tuple(asked), "go " * 9000), plan(), "", ""]
    )
    researcher = Researcher("r", model, ["alpha"], [search, read], 2, judge=False)
    researcher.report_sync()
    assert len(researcher.generated) == 10
    assert max(len(each.topic) for each in researcher.generated) <= 300
    assert len(str(model.received[3])) < 9_000


def test_research_evaluation_by_rules_keeps_the_smaller_objectives_of_the_one_before() -> None:
    searching = plan(("search", {"query": "alpha"}))
    script = [searching, evaluation({"alpha": 0.1}, ("port of alpha",))]
    script += [plan(("read", {"url": ALPHA})), TEXT, "?", "?"]
    researcher = Researcher("r", ScriptedModel(script), ["alpha"], [search, read], 2, judge=False)
    researcher.report_sync()
    assert [each.topic for each in researcher.generated] == ["port of alpha"]


class Small(ScriptedModel):
    """A scripted model that counts as one in this process, which is small."""

    in_process = True


def test_small_models_answer_stands_above_what_rules_quote() -> None:
    pages = {f"page {n}": f"Alpha has the number {n}. " + "It is blue. " * 150 for n in range(3)}

    async def search(query: str) -> list[Resource]:
        """Search."""
        return [Resource(url, url, True, text) for url, text in pages.items()]

    def say(messages: list[Any], actions: Any) -> str:
        asked = messages[-1]["content"]
        assert asked.endswith("Answer, each sentence with the number of its source:")
        found = re.search(r"Alpha has the number ([02])\.", asked)
        number = re.search(r"^\[(\d)\]", asked, re.MULTILINE)
        if found is None or number is None:
            return "The sources do not say."
        return (
            f"The number of Alpha is {found[1]} [{number[1]}]. It is red [{number[1]}]. It flies."
        )

    model, question = Small(say), "Which number has Alpha?"
    model.context_tokens = 2000
    report = Researcher("r", model, question, [search], 1, judge=False).report_sync()
    answers, _, quotes = report.markdown.partition("The sources say:")
    assert re.findall(r"The number of Alpha is \d", answers) == [
        "The number of Alpha is 0",
        "The number of Alpha is 2",
    ]
    assert not re.search("do not say|red|flies|How sure", report.markdown)
    by_rules = Researcher("r", None, question, [search], 1).report_sync()
    wanted = re.findall("^- “(.*?)”", by_rules.markdown, re.MULTILINE)
    assert any("has the number 1" in each for each in wanted)
    assert re.findall("^- “(.*?)”", quotes, re.MULTILINE) == wanted
    assert [each.expertise for each in report.objectives] == [
        each.expertise for each in by_rules.objectives
    ]


@pytest.mark.parametrize("said", ("The sources do not say.", "", "Status 7 [1].", "Status 124."))
@pytest.mark.parametrize("has_it", (True, False))
def test_small_model_without_an_answer_that_stands_reports_as_rules_do(
    said: str, has_it: bool
) -> None:
    async def search(query: str) -> list[Resource]:
        """Search."""
        text = "The pump of Zorp exits with status 124 if its time is out."
        return [Resource("a", "a", True, text if has_it else "It is blue.")]

    question = "With which status does the pump of Zorp exit if its time is out?"
    report = Researcher(
        "r", Small(lambda *_: said), question, [search], 1, judge=False
    ).report_sync()
    assert ("status 124" in report.markdown, bool(report.citations)) == (has_it, has_it)
    assert "Status" not in report.markdown

"""The researcher: five steps an iteration, until it is over, and a report with sources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.research.quotes import shows

from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Agent,
    Budget,
    BudgetedModel,
    CallbackApprover,
    Context,
    DualActAgent,
    DualActConfig,
    Journal,
    NativeSpace,
    ScriptedModel,
    action,
)
from moothall.agents.block import Block
from moothall.foundation.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    DefinitionError,
    InDoubt,
    ModelError,
    MoothallError,
    RunMismatch,
)
from moothall.memory.bounded import estimate_tokens
from moothall.models.protocol import ModelReply, Usage
from moothall.research import (
    Findings,
    Narrative,
    Objective,
    Passage,
    Plan,
    Report,
    Researcher,
    ResearchResult,
    ResearchTask,
    Resource,
    ResourcePool,
    Section,
    extractive_steps,
    search_folder,
)
from moothall.research.extractive.question_words import QuestionWords
from research.small_web import ALPHA, BETA, PAGES, SCRIPT, evaluation, plan, tools
from standing_clock import StandingClock


def told(model: ScriptedModel, at: int) -> str:
    """What the model was told at one of its calls."""
    return "\n".join(str(each["content"]) for each in model.received[at])


def research(script: list[Any] | None = None, **options: Any) -> tuple[Researcher, ScriptedModel]:
    model = ScriptedModel(SCRIPT if script is None else script)
    options = {"objectives": ["alpha"], "tools": tools(), **options}
    return Researcher("r", model, **options, judge=False), model


# -- with a model ----------------------------------------------------------------------------------


def test_report_has_what_its_sources_bear_out_and_marks_the_rest() -> None:
    researcher, _ = research()
    report = researcher.report_sync()
    assert report.stop_reason == "done"
    assert [(c.number, c.sentence, c.passage.url) for c in report.citations] == [
        (1, "The alpha protocol uses port 4711.", ALPHA),
        (2, "Beta encrypts every message.", BETA),
    ]
    assert all(c.passage.text in PAGES[c.passage.url][1] for c in report.citations)
    assert "It was written in 1999. [unsupported]" in report.markdown
    assert "Gamma is the best. [unsupported]" in report.markdown
    assert "[^9^]" not in report.markdown
    assert report.unsupported[0][1] == "says 1999, which is not in the passage"
    assert f"[^1^]: The alpha protocol – <{ALPHA}>, read 20" in report.markdown
    counts = "0 sentences supported by a source, 2 marked [not checked], 2 marked [unsupported]"
    assert counts in report.markdown


def test_surrogate_from_a_model_does_not_keep_a_report_from_being_written() -> None:
    said = "The alpha protocol uses port 4711.[^1^] So it is \ud83d."
    researcher, _ = research([*SCRIPT[:3], said, SCRIPT[4]])
    report = researcher.report_sync()
    assert "So it is" in report.markdown.encode().decode()


def test_report_source_title_writes_no_markdown() -> None:
    @action(idempotent=True)
    async def look(url: str) -> Resource:
        """Look at a page.

        Args:
            url: where it is
        """
        return Resource(url, "Read *me* [here](http://evil.test)", True, PAGES[url][1])

    script = [plan(("look", {"url": ALPHA})), "Alpha uses port 4711.[^1^]"]
    researcher, _ = research([*script, evaluation({"alpha": 0.95})], tools=[Action.of(look)])
    report = researcher.report_sync()
    assert "[^1^]: Read \\*me\\* \\[here\\](`http://evil.test`)" in report.markdown


@pytest.mark.parametrize("permits", (True, False))
def test_research_tool_to_be_asked_about_is_called_with_its_approvers_leave(permits: bool) -> None:
    @action(access_policy=ACCESS_REQUESTED)
    async def look(url: str) -> Resource:
        """Look at a page.

        Args:
            url: where it is
        """
        return Resource(url, "Alpha", True, PAGES[url][1])

    async def approve(request: Any) -> bool:
        return permits

    script = [plan(("look", {"url": ALPHA})), "Alpha uses port 4711.[^1^]"]
    researcher, _ = research(
        [*script, evaluation({"alpha": 0.95})],
        tools=[Action.of(look)],
        approver=CallbackApprover(approve),
    )
    assert len(researcher.report_sync().citations) == permits


def test_research_tool_may_ask_for_the_same_research(tmp_path: Path) -> None:
    asked = []

    @action(idempotent=True)
    async def search(query: str) -> list[Resource]:
        """Search.

        Args:
            query: words
        """
        asked.append(query)
        if len(asked) == 1:
            await researcher.reply(researcher.task)
        return [Resource(ALPHA, "Alpha", True, PAGES[ALPHA][1])]

    with Journal(tmp_path / "j") as journal:
        look = [Action.of(search)]
        researcher = Researcher("r", objectives=["alpha"], tools=look, journal=journal)
        report = researcher.report_sync()
        assert asked == ["alpha", "alpha"]
        assert len({each.entries for each in journal.runs()}) == 1  # both are recorded whole
    assert report.citations


def test_research_step_is_told_what_the_one_before_found() -> None:
    researcher, model = research()
    researcher.report_sync()
    first, second, planned, narrated, evaluated = (told(model, at) for at in range(5))
    assert '"tool": "search"' in first
    assert '"topic": "alpha", "expertise": 0.0' in first
    assert '"expertise": 0.1' in planned
    assert "Read both pages." in planned
    assert "encryption of alpha" in planned
    assert ALPHA in planned  # known and not read
    assert '{"query": "alpha"}' in planned  # done already
    assert "Read both pages." in narrated
    assert "| The alpha protocol was written in 1998" in narrated
    assert "says 1999, which is not in the passage" in evaluated
    assert "It uses port" not in second


async def test_research_steps_are_events_of_the_one_stream() -> None:
    researcher, _ = research()
    events = [event async for event in researcher.stream(researcher.task)]
    blocks = [e.block for e in events if e.kind == "block_ended" and e.iteration == 2]
    assert blocks == ["plan", "research", "update", "narrate", "evaluate"]
    ended = {(e.block, e.iteration): e.result for e in events if e.kind == "block_ended"}
    assert ended["plan", 1]["tasks"][0]["args"] == {"query": "alpha"}
    visited = {(r["url"], r["visited"]) for r in ended["update", 1]["resources"]}
    assert visited == {(ALPHA, False), (BETA, False)}
    assert ended["evaluate", 1]["remark"] == "Read both pages."
    calls = [(e.action, e.args) for e in events if e.kind == "call_started"]
    assert calls[1:] == [("read", {"url": ALPHA}), ("read", {"url": BETA})]
    assert events[-1].reply.value.stop_reason == "done"
    drafts = "".join(each.text for each in events if each.kind == "reasoning")
    assert drafts.startswith("The alpha protocol uses port 4711.[^1^]")
    assert "expertise" not in drafts  # neither plans nor judgements
    assert not any(each.kind == "text" for each in events)


def test_research_task_that_was_done_is_never_done_again() -> None:
    seen: list[str] = []
    again = plan(("search", {"query": "alpha"}), ("read", {"url": ALPHA}))
    researcher, _ = research(
        [
            *(SCRIPT[0], evaluation({"alpha": 0.1}), again, "Alpha uses port 4711.[^1^]"),
            *(evaluation({"alpha": 0.2}), plan(("read", {"url": ALPHA}))),
        ],
        tools=tools(seen.append),
    )
    report = researcher.report_sync()
    assert seen == ["search alpha", "read alpha"]
    assert (report.stop_reason, report.iterations) == ("no_progress", 3)


def test_research_tool_that_fails_is_a_result_that_says_why() -> None:
    researcher, model = research(
        [
            plan(("read", {"url": "http://web.test/gone"}), ("search", {"query": "alpha"})),
            evaluation({"alpha": 0.0}),
        ],
        iterations=1,
    )
    report = researcher.report_sync()
    assert report.stop_reason == "max_iterations"
    assert researcher.results[0].error
    assert researcher.results[0].citation is None
    assert researcher.results[1].error is None
    assert researcher.resources.find("http://web.test/gone") is None
    assert researcher.results[0].error in told(model, 1)
    assert "Nothing relevant was found for “alpha”: nothing was read." in report.markdown
    assert report.citations == []


def test_research_tool_that_hangs_ends_with_its_own_time_and_the_others_are_read() -> None:
    @action(idempotent=True, timeout=0.05)
    async def hang(query: str) -> str:
        await asyncio.Event().wait()
        return "Alpha uses port 1."

    @action(idempotent=True)
    async def look(query: str) -> str:
        return "Alpha uses port 4711."

    researcher = Researcher("r", None, "alpha port", [hang, look], iterations=1)
    report = researcher.report_sync()
    assert [each.sentence for each in report.citations] == ["“Alpha uses port 4711.”"]
    assert "0.05" in str(researcher.results[0].error)


def test_research_tool_whose_resource_is_malformed_has_failed() -> None:
    async def look(query: str) -> Resource:
        return Resource("http://web.test/", "Alpha", True, {"port": 1})  # type: ignore[arg-type]

    report = Researcher("r", None, "the alpha protocol", [look, *tools()]).report_sync()
    assert report.stop_reason == "no_progress"
    report = Researcher("r", None, "the alpha protocol", [look]).report_sync()
    assert "a resource's content must be a text, got {'port': 1}" in report.detail


class Flaky:
    """A search and a reader that fail while `down` has their names."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)

    def tools(self) -> list[Any]:
        def check(name: str) -> None:
            if name in self.down:
                raise ConnectionError(f"the {name} server is down")

        async def search(query: str) -> list[Resource]:
            """Search.

            Args:
                query: words
            """
            check("search")
            return [Resource(url, title) for url, (title, _) in PAGES.items()]

        async def read(url: str, part: str = "") -> Resource:
            """Read.

            Args:
                url: where it is
                part: which part
            """
            check("read")
            return Resource(url, *PAGES[url][:1], True, PAGES[url][1])

        return [search, read]


@pytest.mark.parametrize(("down", "iterations"), (("search", 3), ("read", 2), ("read", 3)))
def test_research_that_could_read_nothing_has_failed_and_the_same_run_tries_again(
    down: str, iterations: int, tmp_path: Path
) -> None:
    web = Flaky(down)

    def again() -> Report:
        return Researcher(
            *("r", None, "the port of alpha", web.tools()),
            iterations,
            journal=tmp_path / "runs.db",
            judge=False,
        ).report_sync("run")

    report = again()
    assert report.stop_reason == "error"
    assert f"the {down} server is down" in report.detail
    assert report.detail in report.markdown
    assert "Nothing could be read for “the port of alpha”." in report.markdown
    with pytest.raises(MoothallError, match="server is down"):
        report.raise_for_error()
    web.down.clear()
    assert "It uses port 4711." in again().citations[0].sentence


class Busy:
    """A web whose pages at `urls` answer that they are busy the first `times`, and its visits."""

    def __init__(self, *urls: str, times: int = 1) -> None:
        self.urls, self.times, self.visits = urls, times, list[str]()

    def tools(self) -> list[Any]:
        async def search(query: str) -> list[Resource]:
            """Search.

            Args:
                query: words
            """
            return [Resource(url, title) for url, (title, _) in PAGES.items()]

        async def read(url: str) -> Resource:
            """Read.

            Args:
                url: where it is
            """
            self.visits.append(url)
            if url in self.urls and self.visits.count(url) <= self.times:
                raise ConnectionError(f"{url} answered 429 (Too Many Requests)")
            return Resource(url, *PAGES[url][:1], True, PAGES[url][1])

        return [search, read]


def test_research_page_that_could_not_be_read_once_is_read_in_a_later_iteration() -> None:
    web = Busy(ALPHA)
    report = Researcher("r", None, "Which port does alpha use?", web.tools(), 4).report_sync()
    assert "It uses port 4711." in report.citations[0].sentence
    assert web.visits.count(ALPHA) == 2
    assert report.notes == []  # it was read in the end


def test_report_names_a_page_that_could_not_be_read_twice_with_the_reason_once() -> None:
    web = Busy(ALPHA, times=9)
    report = Researcher("r", None, "Which port does alpha use?", web.tools(), 9).report_sync()
    assert (report.stop_reason, web.visits.count(ALPHA)) == ("no_progress", 2)
    assert report.notes == [f"failed: {ALPHA} answered 429 (Too Many Requests)"]
    assert report.markdown.count("429") == 1


def test_report_names_several_searches_that_failed_for_one_reason_in_one_note() -> None:
    web, down = Busy(), Flaky("search").tools()[0]
    down.__name__ = "look"
    report = Researcher(
        "r", None, "Which port does alpha use?", [down, *web.tools()], 2
    ).report_sync()
    assert report.citations
    assert [each.count("the search server is down") for each in report.notes] == [1]
    assert report.notes[0].startswith("failed: Which port does alpha use?, ")


def test_research_page_that_could_not_be_read_once_is_read_when_the_run_is_resumed(
    tmp_path: Path,
) -> None:
    web, reports = Busy(ALPHA), []
    for iterations in (2, 4):
        researcher = Researcher(
            *("r", None, "Which port does alpha use?", web.tools()),
            iterations,
            journal=tmp_path / "runs.db",
        )
        reports.append(researcher.report_sync("run"))
    assert [each.notes for each in reports] == [
        [f"failed: {ALPHA} answered 429 (Too Many Requests)"],
        [],
    ]
    assert "It uses port 4711." in reports[1].citations[0].sentence


def test_research_task_that_an_approver_refused_is_not_asked_about_again() -> None:
    asked: list[str] = []

    @action(access_policy=ACCESS_REQUESTED)
    async def look(url: str) -> Resource:
        """Look at a page.

        Args:
            url: where it is
        """
        return Resource(url, "Alpha", True, PAGES[url][1])

    async def approve(request: Any) -> bool:
        asked.append(request.args["url"])
        return False

    researcher = Researcher(
        "r",
        None,
        "the port of alpha",
        [Busy().tools()[0], look],
        5,
        approver=CallbackApprover(approve),
    )
    researcher.report_sync()
    assert sorted(asked) == sorted(set(asked)) != []


def test_research_whose_last_findings_cannot_be_read_has_failed() -> None:
    tasks = plan(("search", {"query": "alpha"}), ("read", {"url": ALPHA, "part": "all"}))
    script = [tasks, evaluation({"alpha": 0.0})]
    report = research(script, tools=Flaky("read").tools(), iterations=1)[0].report_sync()
    assert report.notes == [f"failed: {ALPHA}: the read server is down"]
    assert report.stop_reason == "error"
    assert report.detail.startswith("nothing of what was found could be read: ")


def test_research_whose_search_merely_finds_nothing_has_not_failed() -> None:
    async def search(query: str) -> list[Resource]:
        """Search.

        Args:
            query: words
        """
        return []

    report = Researcher("r", None, "the port of alpha", [search]).report_sync()
    assert (report.stop_reason, report.detail) == (
        "no_progress",
        "the last iteration found nothing new",
    )
    assert "Nothing relevant was found for “the port of alpha”." in report.markdown


@pytest.mark.parametrize(
    ("answer", "fault"),
    (
        ("I would search.", 'holds no JSON with "tasks"'),
        ("", "is empty"),
        (plan(("fly", {})), "there is no tool 'fly'"),
        (plan(("search", {})), 'missing argument "query"'),
        (plan(("search", {"query": ["a", "b"]})), '"query"'),
    ),
)
def test_research_plan_that_cannot_be_used_is_asked_for_once_more(answer: str, fault: str) -> None:
    researcher, model = research([answer, *SCRIPT])
    assert researcher.report_sync().stop_reason == "done"
    assert fault in told(model, 1)
    assert model.received[1][-2]["content"] == (answer or "(no answer)")

    researcher, _ = research([answer, answer, *SCRIPT[1:]])
    report = researcher.report_sync()
    assert report.stop_reason == "done"
    assert report.notes[0].startswith("iteration 1: the plan is by rules, as the model's answer ")
    assert "Notes: iteration 1: the plan is by rules" in report.markdown


def test_research_plan_unreadable_and_no_tool_takes_a_query_ends_as_unreadable() -> None:
    @action
    async def look(url: str, page: int) -> str:
        """Look at a page."""
        return ""

    report = research(["I would look.", "No."], tools=[look])[0].report_sync()
    assert report.stop_reason == "unreadable"
    with pytest.raises(ModelError, match="unreadable"):
        report.raise_for_error()


@pytest.mark.parametrize(
    ("stop", "raised"),
    (
        ("budget", BudgetExceeded),
        ("deadline", DeadlineExceeded),
        ("in_doubt", InDoubt),
        *((each, ModelError) for each in ("unreadable", "cancelled", "error")),
        *((each, None) for each in ("done", "max_iterations", "no_progress")),
    ),
)
def test_report_raise_for_error_raises_by_stop_reason(stop: Any, raised: Any) -> None:
    report = Report("", [], stop, "so it was")
    if raised is None:
        report.raise_for_error()
        return
    with pytest.raises(MoothallError, match=f"no reply \\({stop}\\): so it was") as caught:
        report.raise_for_error()
    assert type(caught.value) is raised


def test_marked_sentence_repeated_without_its_footnote_stays_marked() -> None:
    narrative = "Alpha uses port 4711.[^1^] It was written in 1999. It never encrypts."
    read = [plan(("read", {"url": url})) for url in (ALPHA, BETA)]
    reached = evaluation({"alpha": 0.5})
    script = [SCRIPT[0], reached, read[0], f"{narrative[:-19]}[^1^]", reached]
    researcher, _ = research([*script, read[1], narrative, reached], iterations=3)
    report = researcher.report_sync()
    assert "It was written in 1999. [unsupported] It never encrypts." in report.markdown
    assert [each[0] for each in report.unsupported] == ["It was written in 1999."]
    assert report.uncited == 1


def test_marked_sentence_repeated_with_the_right_source_is_not_marked() -> None:
    said = "The beta protocol replaced alpha in 2004."
    read = [plan(("read", {"url": url})) for url in (ALPHA, BETA)]
    reached = evaluation({"alpha": 0.5})
    script = [SCRIPT[0], reached, read[0], f"{said}[^1^]", reached, read[1]]
    researcher, _ = research([*script, f"{said}[^2^]", reached], iterations=3)
    report = researcher.report_sync()
    assert f"{said}[^1^]\n" in report.markdown
    assert report.unsupported == []


def test_report_sentence_with_two_sources_is_one_sentence() -> None:
    both = "Alpha was written in 1998, and beta replaced alpha in 2004."
    read = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
    script = [SCRIPT[0], evaluation({"alpha": 0.1}), read, f"{both}[^1^][^2^]"]
    report = research([*script, evaluation({"alpha": 0.95})])[0].report_sync()
    assert f"{both}[^1^][^2^]" in report.markdown
    assert "1 marked [not checked], 0 marked" in report.markdown
    assert [each.number for each in report.citations] == [1, 2]


def test_objectives_are_each_there_once_and_smaller_ones_say_something_new() -> None:
    script = [SCRIPT[0], evaluation({"alpha": 0.1}, ("alpha", " ", "its key"))]
    researcher, _ = research(script, objectives=["alpha", Objective("alpha", 0.05)], iterations=1)
    assert [each.expertise for each in researcher.objectives] == [0.05]
    assert researcher.findings is None
    researcher.report_sync()
    assert [each.topic for each in researcher.generated] == ["its key"]
    assert researcher.findings is not None  # what a Plan of the user's own plans by
    assert researcher.findings.generated_objectives == researcher.generated
    assert researcher.findings.narrative == researcher.narrative.markdown
    assert researcher.findings.remark


def test_narrate_results_beyond_one_prompt_are_narrated_in_as_many_as_it_takes() -> None:
    @action(idempotent=True)
    async def read(url: str) -> Resource:
        """Read a page.

        Args:
            url: where it is
        """
        about = "Gamma" if url.endswith("6") else "Alpha"
        return Resource(url, None, True, f"{about} {url[-1]} " + "rests upon copper plates. " * 30)

    urls = [f"http://web.test/{number}" for number in range(7)]
    script = [
        plan(*(("read", {"url": each}) for each in urls)),
        *["It rests upon copper plates.[^1^]"] * 7,
    ]
    script.append(evaluation({"alpha": 1.0, "gamma": 1.0}))
    researcher, model = research(script, tools=[read], objectives=["alpha", "gamma"])
    model.context_tokens = 1000  # type: ignore[attr-defined]
    assert researcher.report_sync().stop_reason == "done"
    assert [told(model, at).count("Source [^") for at in range(9)] == [0, *[1] * 7, 0]
    assert "Gamma 6" in told(model, 1) + told(model, 2)  # the best for each objective come first


def test_research_iteration_that_reads_what_was_read_before_found_nothing_new() -> None:
    @action(idempotent=True)
    async def read_again(page: str) -> Resource:
        """Read a page once more.

        Args:
            page: where it is
        """
        return Resource(page, None, True, PAGES[page][1])

    texts = ["Alpha uses port 4711.[^1^]", evaluation({"alpha": 0.5})]
    script = [SCRIPT[0], texts[1], plan(("read", {"url": ALPHA})), *texts]
    script += [plan(("read_again", {"page": ALPHA})), *texts]
    report = research(script, tools=[*tools(), read_again], iterations=9)[0].report_sync()
    assert (report.stop_reason, report.iterations) == ("no_progress", 3)
    assert report.detail == "the last iteration found nothing new"


def test_research_iteration_whose_tasks_all_fail_after_reading_says_so() -> None:
    gone = plan(("read", {"url": "http://web.test/gone"}))
    reached = evaluation({"alpha": 0.5})
    read = plan(("search", {"query": "alpha"}), ("read", {"url": ALPHA}))
    script = [SCRIPT[0], reached, read, "Alpha uses port 4711.[^1^]", reached]
    report = research([*script, gone, reached, gone, reached], iterations=9)[0].report_sync()
    assert report.stop_reason == "no_progress"
    assert report.detail.startswith("each task of the last iteration failed: ")
    assert "404 for http://web.test/gone" in report.detail
    assert report.notes == []


@pytest.mark.parametrize("expertise", (1.5, -0.1, "high"))
def test_expertise_of_a_model_that_is_no_number_from_0_to_1_is_refused(expertise: Any) -> None:
    wrong = json.dumps(
        {
            "objectives": [{"topic": "alpha", "expertise": expertise}],
            "generated_objectives": [],
            "remark": "",
        }
    )
    researcher, model = research([SCRIPT[0], wrong, wrong], iterations=1)
    report = researcher.report_sync()
    assert "does not say what is answered of 'alpha'" in told(model, 2)
    assert report.objectives[0].expertise == 0.0
    assert report.notes[0].startswith("iteration 1: the evaluation is by rules")
    with pytest.raises(DefinitionError, match="from 0 to 1"):
        Objective("alpha", expertise)


@pytest.mark.parametrize(
    ("answers", "beta", "notes"),
    (
        (["I'm sorry, I cannot help with that."] * 2, False, 1),
        (["No changes are needed.", "Alpha uses port 4711 [1]. Beta encrypts all [2]."], True, 0),
        (["Beta encrypts every message.[^2^]"], True, 0),
    ),
)
def test_narrative_is_not_lost_where_the_model_gives_back_none_of_it(
    answers: list[str], beta: bool, notes: int
) -> None:
    first = plan(("read", {"url": ALPHA}))
    said = [*SCRIPT[:2], first, "Alpha uses port 4711.[^1^]", evaluation({"alpha": 0.1})]
    more = [plan(("read", {"url": BETA})), *answers, evaluation({"alpha": 1.0})]
    researcher, _ = research([*said, *more], iterations=9)
    report = researcher.report_sync()
    assert report.stop_reason == "done"
    cited = [each.sentence for each in report.citations]
    assert cited[0] == "Alpha uses port 4711."
    assert (len(cited) == 2, len(report.notes)) == (beta, notes)


def test_research_whose_model_failed_amid_narrating_tells_what_was_read_when_it_goes_on() -> None:
    def answers() -> Iterator[str]:
        yield from SCRIPT[:3]
        raise ModelError("server is overloaded")

    def goes_on() -> Iterator[str]:
        yield plan(("search", {"query": "alpha"}))  # which was done
        yield from SCRIPT[3:]

    scripts = iter((answers(), goes_on()))
    script = next(scripts)
    model = ScriptedModel(lambda messages, actions: next(script))
    made = Researcher("r", model, ["alpha"], tools(), judge=False, iterations=2)
    assert made.report_sync().citations == []
    script = next(scripts)
    assert "port 4711" in made.report_sync().narrative()


def test_research_model_that_fails_ends_it_with_the_report_so_far() -> None:
    researcher, _ = research([*SCRIPT[:4]])  # nothing is left for Evaluate
    report = researcher.report_sync()
    assert report.stop_reason == "error"
    assert "The alpha protocol uses port 4711.[^1^]" in report.markdown
    assert len(report.citations) == 2


def test_research_step_that_fails_ends_it_with_the_report_so_far(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Block):
        async def forward(self, researcher: Researcher) -> None:
            if researcher.iteration == 2:
                raise ZeroDivisionError("by nothing")

    researcher = Researcher(
        "r", None, ["the alpha protocol", "the colour of gamma"], tools(), evaluate=Broken()
    )
    report = researcher.report_sync()
    assert report.stop_reason == "error"
    assert "ZeroDivisionError: by nothing (in agent 'r', block 'Broken': forward)" in report.detail
    assert report.citations
    assert "researcher 'r' failed" in caplog.text


class Gives(Block):
    """A step that gives what it was told to."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self._given = given

    async def forward(self, researcher: Researcher) -> Any:
        return self._given


@pytest.mark.parametrize(
    ("step", "given", "told"),
    (
        ("plan", 3, "plan= must return a list of ResearchTasks, got 3"),
        (
            "plan",
            [ResearchTask("read", None, "")],  # type: ignore[arg-type]
            "plan= must return ResearchTasks whose args is a dict, got None",
        ),
        (
            "narrate",
            Narrative(None),  # type: ignore[arg-type]
            "narrate= must return Narratives whose markdown is a str, got None",
        ),
        ("research", [3], "research= must return a list of ResearchResults, got [3]"),
        ("narrate", "text", "narrate= must return a Narrative, got 'text'"),
        ("evaluate", {}, "evaluate= must return a Findings, got {}"),
        ("evaluate", Findings("", "", None), "must be texts or objectives"),  # type: ignore[arg-type]
    ),
)
def test_research_step_that_gives_something_else_is_told_what_it_must(
    step: str, given: Any, told: str
) -> None:
    steps: dict[str, Any] = {step: Gives(given)}
    report = Researcher("r", None, "the alpha protocol", tools(), **steps).report_sync()
    assert report.stop_reason == "error"
    assert told in report.detail
    assert "block 'Gives'" in report.detail


def test_expertise_that_a_step_sets_is_refused_outside_of_0_to_1() -> None:
    class Sure(Block):
        async def forward(self, researcher: Researcher) -> None:
            researcher.objectives[0].expertise = 2

    report = Researcher("r", None, "alpha", tools(), evaluate=Sure()).report_sync()
    assert report.stop_reason == "error"
    assert "expertise must be from 0 to 1, got 2" in report.detail
    assert report.objectives[0].expertise == 0.0


def test_research_step_of_ones_own_gives_results_that_are_cited() -> None:
    found = ResearchResult("ask", {}, "", "Alpha uses port 9.", citation="https://a.example/x")
    report = Researcher(
        "r", None, "alpha port", tools(), iterations=1, research=Gives([found])
    ).report_sync()
    assert [(c.sentence, c.passage.url) for c in report.citations] == [
        ("“Alpha uses port 9.”", "https://a.example/x")
    ]
    found = ResearchResult("ask", {}, "", "Alpha uses port 9.", citation="my <own> notes")
    report = Researcher(
        "r", None, "alpha port", tools(), iterations=1, research=Gives([found])
    ).report_sync()
    assert "– <my%20own%20notes>, read 20" in report.markdown
    failed = ResearchResult("ask", {}, "", "Alpha uses port 9.", error="it broke off")
    report = Researcher("r", None, "alpha port", tools(), research=Gives([failed])).report_sync()
    assert report.citations == []
    undated = Resource("https://a.example/y", None, True, "Alpha uses port 9.")
    found = ResearchResult("ask", {}, "", resources=[undated])
    report = Researcher(
        "r", None, "alpha port", tools(), iterations=1, research=Gives([found])
    ).report_sync()
    assert "– <https://a.example/y>, read on an unknown day" in report.markdown


def test_plan_step_of_ones_own_is_cut_to_max_tasks_each_once() -> None:
    tasks = [ResearchTask("read", {"url": each}, "") for each in (ALPHA, ALPHA, BETA, "x")]
    researcher = Researcher(
        "r", None, "alpha", tools(), max_tasks=2, iterations=1, plan=Gives(tasks)
    )
    for url in PAGES:
        researcher.resources.add(url)
    researcher.report_sync()
    assert [each.args["url"] for each in researcher.done] == [ALPHA, BETA]


def test_research_task_for_a_missing_tool_fails_alone() -> None:
    tasks = [ResearchTask("fly", {}, ""), ResearchTask("read", {"url": ALPHA}, "")]
    researcher = Researcher("r", None, "alpha port", tools(), iterations=1, plan=Gives(tasks))
    researcher.resources.add(ALPHA)
    assert researcher.report_sync().citations
    assert [each.error for each in researcher.results] == [
        *("there is no tool 'fly'; there are search, read", None)
    ]


def test_research_tool_gets_its_arguments_as_it_declares_them_or_is_not_called() -> None:
    seen: list[Any] = []

    async def search(query: str, since: date) -> list[Resource]:
        """Search."""
        seen.append((query, since))
        return []

    args = [{"query": "alpha", "since": since} for since in ("2026-01-05", "lately")]
    tasks = Gives([ResearchTask("search", each, "") for each in args])
    researcher, _ = research([evaluation({"alpha": 0.1})], tools=[search], plan=tasks, iterations=1)
    researcher.report_sync()
    assert seen == [("alpha", date(2026, 1, 5))]
    assert [each.error is None for each in researcher.results] == [True, False]
    assert 'argument "since" must be a valid date' in str(researcher.results[1].error)


def test_action_result_is_a_source_only_of_what_it_says() -> None:
    @action
    def weather(query: str) -> str:
        """Look at the sky."""
        return "The sky is blue today."

    @action
    def ask(query: str, pool: ResourcePool) -> str:
        """Ask somebody, who names a page too."""
        pool.add("https://a.example/more")
        return "Alpha uses port 9."

    report = Researcher("r", None, "Which port does alpha use?", [weather, ask]).report_sync()
    # The query is no evidence, and what is said twice in the same words is cited once.
    assert [each.sentence for each in report.citations] == ["“Alpha uses port 9.”"]
    assert report.citations[0].passage.url.startswith("action:ask?")


def test_waiting_for_a_report_where_a_loop_is_running_says_what_to_do() -> None:
    async def main() -> None:
        research()[0].report_sync()

    with pytest.raises(RuntimeError, match=r"report_sync of agent 'r' .* await report\(\) instead"):
        asyncio.run(main())


def test_researcher_asks_no_model_where_nothing_was_read() -> None:
    researcher, model = research([SCRIPT[0], evaluation({"alpha": 0.0})], iterations=1)
    report = researcher.report_sync()
    assert len(model.received) == 2  # Plan and Evaluate
    assert report.citations == []


# -- limits ----------------------------------------------------------------------------------------


def test_budget_holds_and_the_report_so_far_is_given() -> None:
    script = [ModelReply(each, usage=Usage(100, 20)) for each in SCRIPT]
    researcher, model = research(script, budget=Budget(model_calls=4))
    report = researcher.report_sync()
    assert (report.stop_reason, len(model.received)) == ("budget", 4)
    assert "uses port 4711.[^1^]" in report.markdown
    assert report.usage == Usage(400, 80)
    with pytest.raises(BudgetExceeded):
        report.raise_for_error()


def test_tools_count_as_actions_and_spend_of_the_same_budget() -> None:
    seen: list[str] = []
    script = [*SCRIPT[:4], evaluation({"alpha": 0.5}), plan(("read", {"url": BETA}))]
    researcher, _ = research(script, tools=tools(seen.append), budget=Budget(actions=2))
    report = researcher.report_sync()
    assert report.stop_reason == "budget"
    assert seen == ["search alpha", "read alpha"]  # both pages together were one too many
    assert [each.passage.url for each in report.citations] == [ALPHA]


def test_budget_counts_a_model_that_a_tool_asks_by_its_context() -> None:
    @action
    async def ask(query: str, context: Context) -> str:
        """Ask the model."""
        model = BudgetedModel(context.agent.model, context.budget)
        return (await model.complete([{"role": "user", "content": query}])).text

    budget = Budget()
    tasks = (("ask", {"query": "alpha"}), ("ask", {"query": "beta"}))
    script = [plan(*tasks), "Alpha uses port 4711.", "Beta is newer.", "Alpha uses port 4711.[^1^]"]
    script.append(SCRIPT[4])
    research(script, objectives=(), tools=[ask], budget=budget)[0].reply_sync("alpha")
    assert (budget.spent.model_calls, budget.spent.actions) == (5, 2)


def test_budget_that_cut_a_plan_ends_the_research_though_nothing_was_found() -> None:
    def look(query: str) -> list[Resource]:
        return []

    asked = "Which port does the alpha protocol use?"
    report = Researcher("r", None, asked, [look], budget=Budget(actions=2))
    assert report.report_sync().stop_reason == "budget"


def test_researcher_without_objectives_or_tools_says_what_to_give() -> None:
    with pytest.raises(DefinitionError, match="no objectives"):
        Researcher("r", None, tools=tools()).report_sync()
    with pytest.raises(DefinitionError, match="no objectives"):
        asyncio.run(Researcher("r", None, tools=tools()).run())
    with pytest.raises(DefinitionError, match=r"search_folder\(PATH\)"):
        Researcher("r", None, ["alpha"]).report_sync()
    with pytest.raises(DefinitionError, match="exactly one text, a query; got 'read'"):
        Researcher("r", None, ["alpha"], tools()[1:]).report_sync()

    def page(number: int) -> str:
        """Return a page."""
        return "Alpha."

    with pytest.raises(DefinitionError, match="exactly one text, a query; got 'page'"):
        Researcher("r", None, ["alpha"], [page]).report_sync()
    with pytest.raises(DefinitionError, match="iterations="):
        Researcher("r", None, ["alpha"], iterations=0)
    for wrong in (0, 1.01, "all"):
        with pytest.raises(DefinitionError, match="target= must be more than 0 and at most 1"):
            Researcher("r", None, ["alpha"], target=wrong)
    for topic in (5, " "):
        with pytest.raises(DefinitionError, match="topic must be a text"):
            Researcher("r", None, [topic])  # type: ignore[list-item]
    with pytest.raises(DefinitionError, match="agent 'r'"):
        Researcher("r", 5, ["alpha"])  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="tools= must be a list of actions"):
        Researcher("r", None, ["alpha"], "search_folder")
    with pytest.raises(DefinitionError, match="plan="):
        Researcher("r", None, ["alpha"], plan=lambda researcher: [])


# -- steps of one's own ----------------------------------------------------------------------------


def test_narrate_step_of_ones_own_stays_when_a_later_step_fails() -> None:
    class Broken(Block):
        async def forward(self, researcher: Researcher) -> None:
            raise ZeroDivisionError("by nothing")

    text = Gives(Narrative("Said by *my own* step."))
    report = Researcher(
        "r", None, "the alpha protocol", tools(), narrate=text, evaluate=Broken()
    ).report_sync()
    assert report.stop_reason == "error"
    assert "Said by *my own* step." in report.markdown
    assert "extractive" not in report.markdown


def test_plan_and_research_steps_of_ones_own_need_no_tools() -> None:
    tasks = Gives([ResearchTask("ask", {}, "")])
    result = ResearchResult("ask", {}, "", "The alpha protocol uses port 9.")
    report = Researcher(
        "r", None, "alpha protocol port", plan=tasks, research=Gives([result])
    ).report_sync()
    assert report.citations[0].sentence == "“The alpha protocol uses port 9.”"


def test_report_so_far_changes_nothing() -> None:
    researcher, _ = research()
    asyncio.run(researcher.run())
    before = researcher.state_dict()
    report = researcher.report_so_far()
    assert (report.stop_reason, report.iterations) == ("cancelled", 1)
    assert researcher.state_dict() == before
    assert researcher.report_sync().stop_reason == "done"


def test_run_is_one_iteration() -> None:
    researcher, _ = research()
    asyncio.run(researcher.run())
    assert [each.expertise for each in researcher.objectives] == [0.1]
    assert [each.topic for each in researcher.generated] == ["encryption of alpha"]
    asyncio.run(researcher.run())
    assert researcher.report_sync().stop_reason == "done"
    assert researcher.progress.iteration == 2


def test_research_steps_can_each_be_replaced() -> None:
    order: list[str] = []

    class OwnPlan(Plan):
        async def before_forward(self) -> None:
            order.append("before plan")

        async def forward(self, researcher: Researcher) -> list[ResearchTask]:
            order.append("plan")
            return [ResearchTask("read", {"url": ALPHA}, "I know it")]

    class OwnNarrate(Block):
        async def forward(self, researcher: Researcher) -> Narrative:
            (passage,) = researcher.fresh_passages()
            number = researcher.number_of(passage)
            return Narrative(f"It uses port 4711.[^{number}^] It uses port 80.[^{number}^]")

    class OwnEvaluate(Block):
        async def forward(self, researcher: Researcher) -> Findings:
            researcher.objectives[0].expertise = 1.0
            return Findings(researcher.narrative.markdown, "fine", [])

        async def after_forward(self) -> None:
            order.append("after evaluate")

    objective = Objective("alpha")
    researcher = Researcher(
        "r",
        None,
        [objective],
        [tools()[1]],
        plan=OwnPlan(),
        narrate=OwnNarrate(),
        evaluate=OwnEvaluate(),
    )
    researcher.resources.add(Resource(ALPHA))
    report = researcher.report_sync()
    assert report.stop_reason == "done"
    assert "It uses port 4711.[^1^] It uses port 80. [unsupported]" in report.markdown
    assert objective.expertise == 1.0
    assert order == ["before plan", "plan", "after evaluate"]


def test_research_tool_may_be_any_action_and_its_result_can_be_cited() -> None:
    def harbour_level(place: str) -> str:
        """The water level of a harbour.

        Args:
            place: which harbour
        """
        return f"The water in {place} stands at 412 cm."

    researcher, _ = research(
        [
            plan(("harbour_level", {"place": "Bremen"})),
            "The water in Bremen stands at 412 cm.[^1^]",
            evaluation({"alpha": 1.0}),
        ],
        tools=[harbour_level],
    )
    (citation,) = researcher.report_sync().citations
    assert citation.passage.url == "action:harbour_level?place=Bremen"
    assert citation.passage.text == "The water in Bremen stands at 412 cm."


# -- without a model -------------------------------------------------------------------------------


def test_extractive_report_quotes_cites_and_says_that_it_is_one() -> None:
    topics = ["Which port does the alpha protocol use?", "How are noodles cooked?"]
    report = Researcher("r", None, topics, tools()).report_sync()
    first = report.citations[0]
    assert first.passage.url == ALPHA
    assert "4711" in first.passage.text
    assert f"## {topics[0]}\n\n### The alpha protocol\n\n- “" in report.markdown
    assert "extractive: no model wrote it" in report.markdown
    assert "Nothing relevant was found for “How are noodles cooked?”." in report.markdown
    assert "can be quoted" not in report.markdown
    assert report.unsupported == []
    assert [each.expertise > 0.5 for each in report.objectives] == [True, False]


def test_extractive_quote_is_of_one_paragraph_without_heading_comment_or_code() -> None:
    page = (
        "## The port of alpha\n\nThe port that alpha uses is 4711. Nobody knows why.\n\n"
        "```python\nport = alpha()\n```\n\n| alpha port | 4711 |\n| --- | --- |\n| beta | 1 |\n"
    )
    code = "<!-- prints -->\n```text\nthe port of alpha\n```\n"

    async def read(query: str) -> list[Resource]:
        """Read.

        Args:
            query: words
        """
        texts = {"http://web.test/page": page, "http://web.test/code": code}
        return [Resource(url, "Alpha", True, text) for url, text in texts.items()]

    report = Researcher("r", None, "the port of alpha", [read]).report_sync()
    first, *_ = [each.sentence for each in report.citations]
    assert first.startswith("“**The port that alpha uses is 4711.** Nobody knows why.")
    assert "<!--" not in report.markdown


def found(
    text: str, objective: str | list[str], url: str = "https://a.test/", **options: Any
) -> Report:
    """The report of one page, which a tool reads."""

    @action(idempotent=True)
    async def look(query: str) -> Resource:
        return Resource(url, "A page", True, text)

    return Researcher("r", None, objective, [Action.of(look)], **options).report_sync()


def test_extractive_report_quotes_the_words_that_answer_in_text_without_marks() -> None:
    spoken = f"{'so we said ' * 99}the mast is 9 m high {'and so on ' * 99}"
    (citation,) = found(spoken, "How high is the mast?").citations
    assert "the mast is 9 m high" in citation.sentence
    assert len(citation.sentence) < 620
    marked = f"{'all is well, ' * 45}then {'very ' * 9}slowly came a mast{', all is well' * 30}"
    (citation,) = found(marked, "mast").citations
    assert shows(citation.sentence, f"then {'very ' * 9}slowly came a mast")


def test_extractive_report_shows_quote_and_topic_as_they_stand() -> None:
    text = "The method __init__ takes *args and a_b, `__str__` and 2 * 3 &amp; more of C:\\*."
    report = found(text, ["What does __init__ take?", "Which *args?", "What is &lt; in 2 * 3?"])
    assert report.citations[0].sentence == f"“{text}”"
    assert r"## What does \_\_init\_\_ take?" in report.markdown
    shown = report.html().replace("&amp;", "&")
    assert "<h2>What does __init__ take?</h2>" in shown
    assert "<h2>What is &lt; in 2 * 3?</h2>" in shown
    quoted = text.replace("`__str__`", "<code>__str__</code>")
    assert f"<li>“{quoted}” <sup" in shown
    odd = found("The mast is red.", "mast", "note <1> \x1b[31m\n")
    assert "<note%201%20[31m>, read 2" in odd.markdown
    marked = found("The bridge was **not** built in 1903.", "bridge", "file:///notes/a.md")
    assert "The bridge was not built in 1903." in marked.markdown


def test_equal_quotes_cite_one_passage_below_a_heading_for_each_objective() -> None:
    def look(query: str) -> list[Resource]:
        """Look."""
        return [Resource(url, None, True, "Alpha uses port 4711.") for url in PAGES]

    more = Gives(Findings("", "", [Objective("the colour of gamma")]))
    researcher = Researcher("r", None, "alpha port", [look], evaluate=more)
    report = researcher.report_sync("first")
    assert report.markdown.startswith(
        "# alpha port\n\n## alpha port\n\n### `http://web.test/alpha`\n\n- “Alpha uses"
    )
    assert [each.passage.url for each in report.citations] == [ALPHA]
    assert report.citations[0].passage.fetched_at.endswith("+00:00")
    assert researcher.report_so_far() == report


def test_researcher_begins_another_run_at_the_beginning() -> None:
    researcher = Researcher("r", None, Objective("alpha port", 0.2), tools())
    begun = []
    for run_id in "AB":
        assert researcher.report_sync(run_id).objectives[0].expertise > 0.2
        begun.append(researcher.done[0].reasoning)
    assert begun == ["search: alpha port"] * 2


def test_objective_that_was_understood_before_is_done() -> None:
    report = Researcher("r", None, Objective("alpha", 0.95), tools()).report_sync()
    assert report.stop_reason == "done"


def test_page_without_a_title_is_called_what_the_search_called_it() -> None:
    search, _ = tools()

    @action
    async def read(url: str) -> Resource:
        """Read a page."""
        return Resource(url, None, True, PAGES[url][1])

    script = [SCRIPT[0], SCRIPT[1], plan(("read", {"url": ALPHA})), "It uses port 4711.[^1^]"]
    researcher, _ = research([*script, evaluation({"alpha": 0.95})], tools=[search, read])
    (citation,) = researcher.report_sync().citations
    assert citation.passage.title == "The alpha protocol"


def test_report_has_one_title() -> None:
    own = "# Of alpha\n\nAlpha uses port 4711.[^1^]"
    report = research([*SCRIPT[:3], own, evaluation({"alpha": 1.0})])[0].report_sync()
    assert report.markdown.startswith("# Of alpha\n\nAlpha uses port 4711.[^1^]")
    assert "# alpha" not in report.markdown
    assert "<title>Of alpha</title>" in report.html()


def test_report_says_what_was_not_read_or_written() -> None:
    def broken(messages: Any, options: Any) -> str:
        raise OSError("no network")

    report = research([broken])[0].report_sync()
    assert report.detail == "OSError: no network"
    assert "Nothing relevant was found for “alpha”: nothing was read." in report.markdown
    report = research([*SCRIPT[:3], broken])[0].report_sync()
    assert report.stop_reason == "error"
    assert "\n\nNo report was written of what was read.\n\n" in report.markdown


def test_report_answer_in_another_language_is_not_said_to_be_missing() -> None:
    def look(query: str) -> Resource:
        """Look."""
        return Resource(ALPHA, "Alpha", True, "It uses port 4711.")

    asked = ["Welchen Anschluss hat es?", "Wie kocht man Nudeln?"]
    judged = evaluation({asked[0]: 0.9, asked[1]: 0.0})
    script = [plan(("look", {"query": "port"})), "It uses port 4711.[^1^]", judged]
    report = research(script, objectives=asked, tools=[look], iterations=1)[0].report_sync()
    assert "gefunden zu „Wie kocht man Nudeln?“." in report.markdown
    assert "found for “Welchen" not in report.markdown


def test_extractive_report_says_what_cannot_be_quoted() -> None:
    report = found("The bridge <b>was</b> built in 1903.", "When was the bridge built?")
    assert report.citations == []
    assert (
        "No answer to “When was the bridge built?”: it was not found in what was read."
        in report.markdown
    )
    assert found("# The bridge", "bridge").citations == []  # a heading that says nothing more

    def look(query: str) -> Resource:
        """Look."""
        return Resource(
            f"https://a.test/{query}", None, True, query.replace("keel", "A keel is red.")
        )

    several = Researcher("r", None, ["mast", "keel"], [look]).report_sync().markdown
    assert "“A keel is red.”" in several
    assert "No answer to “mast”: it was not found in what was read." in several
    assert "to “keel”: it" not in several
    researcher = Researcher("r", None, "alpha", tools(), iterations=1)  # which searches first
    assert (
        "Nothing relevant was found for “alpha”: nothing was read."
        in researcher.report_sync().markdown
    )


@pytest.mark.parametrize("step", ("plan", "evaluate"))
def test_research_step_that_hangs_ends_with_the_time_of_the_run(step: str) -> None:
    class Hanging(Block):
        async def forward(self, researcher: Researcher) -> None:
            await asyncio.Event().wait()

    steps: dict[str, Any] = {step: Hanging()}
    researcher = Researcher(
        "r", None, "alpha", tools(), budget=Budget(seconds=0.2, clock=StandingClock()), **steps
    )
    report = researcher.report_sync()
    assert (report.stop_reason, report.iterations) == ("deadline", 0)
    assert report.detail.startswith("the run's time limit was reached")


def test_extractive_report_quotes_what_was_found_before_the_time_limit() -> None:
    def look(query: str) -> Resource:
        """Look."""
        return Resource(ALPHA, "Alpha", True, "Alpha uses port 4711.")

    async def hang(query: str) -> None:
        """Wait."""
        await asyncio.Event().wait()

    timed = Budget(seconds=2, clock=StandingClock())
    researcher = Researcher("r", None, "alpha port", [look, hang], budget=timed)
    report = researcher.report_sync()
    assert (report.stop_reason, report.iterations) == ("deadline", 0)
    assert [each.sentence for each in report.citations] == ["“Alpha uses port 4711.”"]
    assert researcher.report_so_far().markdown == report.markdown


def test_run_whose_plan_the_budget_cut_goes_on_with_the_rest_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    waiting = [True]

    @action(idempotent=True)
    async def look(query: str) -> list[Resource]:
        """Look."""
        if waiting and waiting.pop():
            await asyncio.Event().wait()
        return [Resource(ALPHA, "Alpha", True, PAGES[ALPHA][1])] * (query == "b")

    both = plan(("look", {"query": "a"}), ("look", {"query": "b"}))
    script = [both, evaluation({"alpha": 0.0}), both, "Alpha uses port 4711.[^1^]"]
    model = ScriptedModel([*script, evaluation({"alpha": 1.0})])
    for budget in (Budget(actions=1, seconds=0.5, clock=StandingClock()), Budget(actions=9)):
        researcher = Researcher(
            *("r", model, "alpha", [look]), journal=tmp_path / "runs.db", judge=False
        )
        report = researcher.report_sync("run", budget=budget)
    assert report.stop_reason == "done"
    assert [each.sentence for each in report.citations] == ["Alpha uses port 4711."]


def test_report_of_a_model_that_the_time_limit_ends_amid_actions_says_that_pages_were_read() -> (
    None
):
    waiting = [True]

    def look(query: str) -> Resource:
        """Look."""
        return Resource(ALPHA, "Alpha", True, "Alpha uses port 4711.")

    async def hang(query: str) -> None:
        """Wait."""
        if waiting.pop():
            await asyncio.Event().wait()

    script = [plan(("look", {"query": "a"}), ("hang", {"query": "b"}))] * 2
    script += ["Alpha uses port 4711.[^1^]", evaluation({"alpha": 0.2})]
    researcher = Researcher("r", ScriptedModel(script), "alpha", [look, hang], 1, judge=False)
    report = researcher.report_sync(budget=Budget(seconds=0.3, clock=StandingClock()))
    assert report.stop_reason == "deadline"
    assert "No report was written of what was read." in report.markdown

    waiting.append(False)
    again = researcher.report_sync()
    assert (again.stop_reason, len(again.citations)) == ("max_iterations", 1)


def test_extractive_research_searches_first_and_reads_what_it_found() -> None:
    seen: list[str] = []
    Researcher("r", None, ["alpha protocol port"], tools(seen.append), iterations=2).report_sync()
    assert seen[0] == "search alpha protocol port"[:20]
    assert "read alpha" in seen[1:]


def test_pages_that_fail_keep_no_other_from_being_read() -> None:
    def search(query: str) -> list[Resource]:
        """Search."""
        return [Resource(f"http://web.test/bees/{n}", "How bees dance") for n in range(12)]

    def read_page(url: str) -> Resource:
        """Read a page."""
        if not url.endswith("/11"):
            raise OSError("403")
        return Resource(url, "Bees", True, "Bees dance an eight in the dark.")

    report = Researcher("r", None, "How do bees dance?", [search, read_page], 6).report_sync()
    assert [each.sentence for each in report.citations] == ["“Bees dance an eight in the dark.”"]


def test_extractive_research_plans_reads_quotes_and_judges_as_it_did() -> None:
    texts = {
        "http://web.test/a": "Bees dance to tell where flowers are. They dance an eight.",
        "http://web.test/b.pdf?v=2": "A dance of bees was described by Karl von Frisch in 1923.",
        "http://web.test/c": "Bees sleep at night.\n\nFlowers of clover are what bees dance for.",
        "http://web.test/d": "Nothing is here.",
        "http://web.test/e": "\n\n".join(f"Bees dance {n} times for flowers." for n in range(6)),
    }

    def search(query: str) -> list[Resource]:
        """Search."""
        return [Resource(each) for each in texts]

    def read_page(url: str) -> Resource:
        """Read a page."""
        return Resource(url, f"Page {url[-1]}", True, texts[url])

    def read_pdf(url: str) -> Resource:
        """Read a document."""
        return Resource(url, "On bees", True, texts[url])

    researcher = Researcher(
        *(
            "r",
            None,
            ["Do bees dance for flowers in winter?", "eight"],
            [search, read_page, read_pdf],
        ),
        max_tasks=5,
    )
    report = researcher.report_sync()
    wanted = [(each.tool.removeprefix("read_"), *each.args.values()) for each in researcher.done]
    queries = [query for tool, query in wanted if tool == "search"]
    # One search a word less, then words of what was found; documents are read by their own tool.
    assert queries[:5] == [
        *("Do bees dance for flowers in winter?", "eight"),
        *("bees dance flowers", "bees dance winter", "bees flowers winter"),
    ]
    assert all({"winter", "eight"} & {*query.split()} for query in queries[5:])
    kinds = ["page", "pdf", "page", "page", "page"]
    read = [each for each in wanted if each[0] != "search"]
    assert read == list(zip(kinds, texts, strict=True))
    told = report.markdown.partition("## eight")
    assert "The answer may be here:" in told[0]
    assert all(f"Bees dance {n} times for flowers." in told[0] for n in range(6))
    assert "They dance an eight." in told[2].partition("## Sources")[0]
    assert [each.expertise for each in report.objectives] == [0.4, 0.52]
    assert (report.iterations, report.stop_reason) == (3, "max_iterations")
    asked = "Do bees dance for flowers in winter?"
    assert f"the answer to “{asked}” may be among the quotes" in researcher.progress.remark
    assert "no source has winter" in researcher.progress.remark


def extractive(objectives: str | list[str], text: str) -> Researcher:
    """A researcher without a model that has read a text."""

    def look(query: str) -> Resource:
        """Look into a text."""
        return Resource("http://web.test/", "A text", True, text)

    researcher = Researcher("r", None, objectives, [look])
    researcher.report_sync()
    return researcher


@pytest.mark.parametrize("named", ("References", "Sources", "Literatur"))
def test_objective_may_be_called_as_lists_of_sources_are(named: str) -> None:
    text = f"A pointer is an address.\n\n{named} are names of what exists already."
    report = extractive(["What is a pointer?", named], text).report_so_far()
    told = report.markdown.partition(f"## {named}\n\n### A text\n\n- “")[2].partition("\n")[0]
    assert shows(told, f"{named} are names of what exists already.")


def test_extractive_research_without_a_fit_searches_for_fewer_words() -> None:
    asked: list[str] = []
    Researcher("r", objectives=["Do owls eat figs?"], tools=tools(asked.append)).report_sync()
    assert asked.index("search owls eat") < asked.index("read alpha")
    assert "search owls eat figs" not in asked


def test_extractive_research_searches_twice_for_each_reading_where_little_is_known() -> None:
    researcher = Researcher("r", None, "the port of alpha protocol", tools(), max_tasks=9)
    for url in PAGES:
        researcher.resources.add(url)
    (objective,) = researcher.objectives
    assert [each.tool for each in extractive_steps.plan(researcher.workbench)] == [
        *("search", "search", "read", "search", "search", "read")
    ]
    objective.expertise = 0.5
    assert [each.tool for each in extractive_steps.plan(researcher.workbench)][:3] == [
        "read",
        "read",
        "search",
    ]
    objective.expertise = researcher.target
    assert extractive_steps.plan(researcher.workbench) == []


def test_objective_is_answered_from_four_passages_of_one_page_at_most() -> None:
    kinds = ["north", "south", "east", "west", "upper", "lower"]
    ends = [
        "at noon",
        "before rain",
        "for clover",
        "in rings",
        "like a figure",
        "when warm days come",
    ]
    dances = [f"The {kind} bees dance {end}." for kind, end in zip(kinds, ends, strict=True)]

    def look(query: str) -> list[Resource]:
        """Look."""
        one = Resource("http://web.test/a", "A", True, "")
        one.content, at = "", []
        for name, text in zip(kinds, dances, strict=True):
            at.append(Section(len(one.content), name, name))
            one.content += f"{text}\n\n"
        one.sections = at
        return [one, Resource("http://web.test/b", "B", True, "Bees dance in the other garden.")]

    report = Researcher("r", None, "bees dance", [look]).report_sync()
    cited = [each.passage.url.partition("#")[0][-1] for each in report.citations]
    assert (cited.count("a"), cited.count("b")) == (4, 1)


def test_research_tool_that_reads_a_page_is_cited_by_that_page_alone() -> None:
    @action
    def ask(query: str, pool: ResourcePool) -> str:
        """Read what is asked about, and name a page."""
        pool.add(Resource("http://web.test/more", "More"))
        day = "2026-01-02T03:04:05+00:00"
        pool.add(Resource("http://web.test/read", "Alpha", True, "Alpha uses port 9."))
        pool.add(Resource("http://web.test/kept", "Alpha", True, "Of that day.", fetched_at=day))
        return "I have read it."

    @action
    def search(query: str) -> list[Resource]:
        """Search."""
        return [Resource("http://web.test/found", "Found")]

    researcher = Researcher("r", None, "alpha port", [ask, search], iterations=1)
    researcher.report_sync()
    results = {each.tool: each for each in researcher.results}
    assert results["ask"].citation == "http://web.test/read"
    dated = {each.url[16:]: (each.fetched_at or "")[:10] for each in results["ask"].resources}
    assert (dated["more"], dated["read"][:2], dated["kept"]) == ("", "20", "2026-01-02")
    assert results["search"].citation is None


def test_research_model_is_told_the_last_fifty_tasks() -> None:
    tasks = [("search", {"query": f"q{number}"}) for number in range(60)]
    researcher, model = research([plan(*tasks), evaluation({"alpha": 0.1}), plan()], max_tasks=60)
    researcher.report_sync()
    prompt = told(model, 2)
    assert [n for n in range(60) if f'"q{n}"' in prompt] == [*range(10, 60)]


def test_research_plan_is_asked_for_within_the_context_of_the_model() -> None:
    @action(idempotent=True)
    def search(query: str) -> list[Resource]:
        """Search.

        Args:
            query: words
        """
        about = ["found " * 40] * 8 + ["of alpha" if query == "q59" else "found"]
        return [Resource(f"http://web.test/{query}/{n}", each) for n, each in enumerate(about)]

    tasks = [("search", {"query": f"q{number}"}) for number in range(60)]
    script = [plan(*tasks), evaluation({"alpha": 0.1}), plan()]
    researcher, model = research(script, tools=[search], max_tasks=60)
    model.context_tokens = 2000  # type: ignore[attr-defined]
    researcher.report_sync()
    assert estimate_tokens(told(model, 2)) < 1500
    assert 0 < told(model, 2).count("http://web.test/") < 15
    assert "http://web.test/q59/8" in told(model, 2)  # what fits the objective comes first
    assert '"about": "Search."' in told(model, 2)
    assert '"q59"' in told(model, 2)


def test_researcher_later_part_of_a_page_is_known_too() -> None:
    parts = ["Alpha is very old indeed.", "The port of the alpha protocol is 4711 today."]

    def search(query: str) -> list[Resource]:
        """Search."""
        part = parts.pop(0) if parts else "Nothing more."
        return [Resource("file:///a.md", "A", True, part, [Section(0, part[:5].strip())])]

    topic = "the port of the alpha protocol"
    report = Researcher("r", None, topic, [search], max_tasks=1).report_sync()
    assert report.citations[0].passage.url == "file:///a.md#The p"


def test_citation_of_a_later_part_of_a_page_has_its_own_day() -> None:
    parts = ["The tower leans by 4 degrees.", "The tower was closed in 1990."]
    days = ["2026-01-01T08:00:00+00:00", "2026-02-02T08:00:00+00:00"]

    def look(query: str) -> Resource:
        """Look."""
        return Resource("file:///tower.md", "Tower", True, parts.pop(0), fetched_at=days.pop(0))

    asked = ["How far leans the tower?", "When was the tower closed?"]
    report = Researcher("r", None, asked, [look], iterations=2, max_tasks=1).report_sync()
    read = {each.passage.text: each.passage.fetched_at[:10] for each in report.citations}
    assert read["The tower was closed in 1990."] == "2026-02-02"
    assert read.get("The tower leans by 4 degrees.", "2026-01-01") == "2026-01-01"


def test_objectives_in_great_number_are_each_searched_for_even_in_one_file(tmp_path: Path) -> None:
    trees = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "oak"]
    planted = [f"## {each}\n\nThe {each} was planted by Ada.\n\n" for each in trees[4:]]
    (tmp_path / "trees.md").write_text("# Trees\n\n" + "".join(planted))
    asked = [f"Where is the {each}?" for each in trees]  # of four there is nothing
    tools = [search_folder(tmp_path, index=tmp_path / "index.db")]
    researcher = Researcher("r", None, asked, tools, iterations=9, max_tasks=2)
    report = researcher.report_sync()
    assert (report.iterations, len(report.citations)) == (5, 4)
    assert report.detail == "no task is left that was not done"


def test_researcher_reads_resources_about_the_topic_first() -> None:
    researcher = Researcher("r", None, "the port of alpha", tools())
    for name, about in (("x", "noodles"), ("y", None), ("z", "alpha, and its port")):
        researcher.resources.add(f"http://web.test/{name}", about)
    assert [each.url[-1] for each in researcher.workbench.unread(2)] == ["z", "x"]
    assert [each.url[-1] for each in researcher.workbench.unread(1, "noodles")] == ["x"]


def test_objectives_each_have_read_what_seems_to_be_about_them() -> None:
    objectives = [Objective("port of alpha", 0.6), Objective("dance of bees", 0.6)]
    researcher = Researcher("r", None, objectives, tools(), max_tasks=2)
    for name, about in (("a", "alpha port"), ("b", "alpha, its port"), ("c", "bees dance")):
        researcher.resources.add(f"http://web.test/{name}", about)
    made = [
        (each.args["url"][-1], each.reasoning[-5:])
        for each in extractive_steps.plan(researcher.workbench)
    ]
    assert made == [("a", "alpha"), ("c", " bees")]


def test_ranking_counts_a_word_of_a_title_twice() -> None:
    title, text = "port of call", "four other words here"
    passages = [Passage.of("http://b", title, "", text), Passage.of("http://a", text, "", title)]
    assert [each.passage.url for each in QuestionWords("port call", passages).best()] == [
        *("http://a", "http://b")
    ]


def test_ranking_scores_a_word_said_once_in_a_passage_of_mean_length_by_its_weight() -> None:
    """As BM25 defines it."""
    texts = ("Bees dance.", "Cats sleep.")
    passages = [Passage.of(f"http://web.test/{text[0]}", text, "") for text in texts]
    asked = QuestionWords("dance", passages)
    (found,) = asked.best()
    assert found.score == pytest.approx(sum(asked.weights.values()))


def test_extractive_query_says_each_word_once() -> None:
    topic = "port of alpha.beta.gamma protocol server"
    researcher = Researcher("r", None, topic, tools(), iterations=1)
    researcher.report_sync()
    queries = [task.args["query"].split() for task in researcher.done if task.tool == "search"]
    assert [len(query) for query in queries] == [5, 3, 3, 3]  # whole, and less one word each
    assert all(len(set(query)) == len(query) for query in queries)


def test_passage_with_one_word_of_an_objective_says_nothing_about_it() -> None:
    texts = ["The zone of Australia is AEST."] + [f"Capital letter {n}." for n in "BCDEFG"]

    def search(query: str) -> list[Resource]:
        """Search."""
        return [Resource(f"http://web.test/{n}", None, True, t) for n, t in enumerate(texts)]

    report = Researcher("r", None, "What is the capital of Australia?", [search]).report_sync()
    assert not report.citations
    assert "Nothing relevant was found for “What is the capital of Australia?”." in report.markdown
    for asked, count in (("Where is AEST?", 1), ("WHAT CAN AEST SAY?", 0)):
        assert len(Researcher("r", None, asked, [search]).report_sync().citations) == count


# -- a conversational agent ------------------------------------------------------------------------


def test_fork_of_an_ended_run_is_over_when_its_program_has_called_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs.db")
    researcher = Researcher("r", None, tools=tools(), iterations=1, journal=journal)
    ended = researcher.reply_sync("the port of alpha", run_id="run")
    fork = journal.fork("run")

    assert researcher.reply_sync("the port of alpha", run_id=fork).text == ended.text

    assert journal.run(fork).state == "done"
    assert journal.replay(fork).text == ended.text


def test_thread_of_a_researcher_reads_addresses_that_its_sources_name() -> None:
    pages = {f"https://wiki.example/{n}": f"The {n} protocol uses port 47." for n in ("mu", "nu")}

    @action(outside=True, idempotent=True)
    def search(query: str) -> list[Resource]:
        return [Resource(url) for url in pages]

    @action(outside=True, idempotent=True, guard=("url",))
    def read(url: str) -> Resource:
        return Resource(url, visited=True, content=pages[url])

    researcher = Researcher("r", None, tools=[search, read])
    for name in ("mu", "nu"):
        report = researcher.reply_sync(f"Which port does {name} use?", thread="ann").value
        assert report.citations[0].passage.url == f"https://wiki.example/{name}"


def test_reply_takes_its_text_as_the_objective_each_thread_its_own() -> None:
    researcher = Researcher("r", None, tools=tools())

    async def main() -> list[Any]:
        texts = ["the port of alpha", "the key of beta"]
        return list(
            await asyncio.gather(*(researcher.reply(t, thread=str(n)) for n, t in enumerate(texts)))
        )

    first, second = asyncio.run(main())
    assert isinstance(first.value, Report)
    assert first.stop_reason == "done"
    assert "4711" in first.value.citations[0].passage.text
    assert "128 bits" in second.value.citations[0].passage.text
    assert "# the key of beta" in second.text
    with pytest.raises(DefinitionError, match="gives a report: leave schema= out"):
        researcher.reply_sync("the port of alpha", schema=int)
    with pytest.raises(DefinitionError, match="topic must be a text, got ''"):
        researcher.reply_sync("")
    assert researcher.objectives == []


def test_researcher_is_asked_by_a_space_and_reviewed_by_a_dual_act() -> None:
    with NativeSpace() as space:
        space.add(Researcher("r", None, tools=tools()))
        me = space.add(Agent("me"))
        text = me.ask("r", "say", content="the port of alpha").result(timeout=30)
        space.add(Researcher("poor", None, tools=tools(), budget=Budget(actions=1)))
        poor = me.ask("poor", "say", content="the port of alpha").result(timeout=30)
    assert "4711" in text
    assert "budget limit reached" in poor  # the report so far, not an error

    from moothall import ReActAgent

    back = {"action": "REDIRECT", "new_instruction": "the key of beta", "reasoning": "Wrong."}
    accept = {"action": "TERMINATE", "new_instruction": "", "reasoning": "Fine."}
    dual = DualActAgent(
        DualActConfig(
            human=ReActAgent("h", ScriptedModel([json.dumps(back), json.dumps(accept)])),
            reactive=Researcher("r", None, tools=tools()),
            first="reactive",
        )
    )
    reply = dual.reply_sync("the port of alpha")
    assert reply.stop_reason == "terminated"
    assert "4711" in reply.conclusions[0].summary
    assert reply.text.startswith("# the key of beta\n")  # its objective, and nothing beside it


def test_researcher_interruption_is_told_to_the_next_step() -> None:
    def warn(what: str) -> None:
        if what.startswith("search"):
            researcher.interrupt("Mind the year.")

    researcher, model = research(tools=tools(warn))
    asyncio.run(researcher.observe("Mind the port."))
    researcher.report_sync()
    assert "Mind the port." in told(model, 0)
    assert "Mind the year." not in told(model, 0)
    assert "Mind the year." in told(model, 2)


# -- recorded --------------------------------------------------------------------------------------


def test_run_that_ended_gives_its_report_again_and_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    report = research(journal=path)[0].report_sync("R")
    seen: list[str] = []
    again, model = research([], journal=path, tools=tools(seen.append))
    assert again.report_sync("R") == report
    assert (seen, model.received) == ([], [])
    with Journal(path) as journal:
        reply = journal.replay("R")
    assert reply.text == report.markdown
    assert reply.value == report


def test_researcher_repeated_iteration_counts_its_spending_once(tmp_path: Path) -> None:
    script = [ModelReply(SCRIPT[0], usage=Usage(100, 20))]  # nothing is left for Evaluate
    researcher, _ = research(script, journal=tmp_path / "runs")
    for _ in range(2):
        report = researcher.report_sync("R")
        assert (report.stop_reason, report.usage) == ("error", Usage(100, 20))
        assert len(researcher.done) == 1


def test_run_in_which_something_was_said_continues(tmp_path: Path) -> None:
    def warn(what: str) -> None:
        first.interrupt("Mind the year.")

    path = tmp_path / "runs"
    first, _ = research(SCRIPT[:1], journal=path, tools=tools(warn))
    assert first.report_sync("R").stop_reason == "error"  # no answer is left
    with Journal(path) as journal:
        assert journal.in_doubt("R") == []
    again, model = research([SCRIPT[0], "", *SCRIPT[1:]], journal=path)  # it was asked twice
    assert again.report_sync("R").stop_reason == "done"
    assert "Mind the year." in told(model, 0)


def test_run_with_a_call_in_doubt_stops_until_it_is_decided(tmp_path: Path) -> None:
    path, copy = tmp_path / "runs", tmp_path / "copy"
    called: list[str] = []

    @action
    async def order(query: str) -> list[Resource]:
        """Order what has to be paid.

        Args:
            query: words
        """
        called.append(query)
        if not copy.exists():
            crash(path, copy)
        return [Resource(ALPHA, "The alpha protocol", True, PAGES[ALPHA][1])]

    text = "The alpha protocol uses port 4711.[^1^]"
    script = [plan(("order", {"query": "alpha"})), text, evaluation({"alpha": 0.95})]
    given = {"tools": [Action.of(order)], "iterations": 1}
    research(script, journal=path, **given)[0].report_sync("R")
    stopped = research(script, journal=copy, **given)[0].report_sync("R")
    assert (stopped.stop_reason, called) == ("in_doubt", ["alpha"])
    assert "moothall resume R" in stopped.detail
    with Journal(copy) as journal:
        journal.decide("R", {1: "repeat"})
    ended = research(script, journal=copy, **given)[0].report_sync("R")
    assert (ended.stop_reason, called) == ("done", ["alpha", "alpha"])


def test_run_is_taken_further_with_more_iterations_and_objectives(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    first, _ = research(SCRIPT[:2], journal=path, iterations=1)
    assert first.report_sync("R").stop_reason == "max_iterations"
    seen: list[str] = []
    more, model = research(
        [*SCRIPT[:4], evaluation({"alpha": 0.95, "beta": 0.95})],
        objectives=["alpha", "beta"],
        journal=path,
        iterations=2,
        tools=tools(seen.append),
    )
    report = more.report_sync("R")
    assert (report.stop_reason, report.iterations) == ("done", 2)
    assert seen == ["read alpha", "read /beta"]
    assert [each.topic for each in report.objectives] == ["alpha", "beta"]
    assert len(model.received) == 3
    assert '{"topic": "alpha", "expertise": 0.1}' in told(model, 0)


def test_run_that_the_budget_stopped_does_the_rest_of_its_tasks_with_more(tmp_path: Path) -> None:
    seen: list[str] = []
    for actions, stop in ((2, "budget"), (3, "budget"), (20, "no_progress")):
        own = {"journal": tmp_path / "runs", "budget": Budget(actions=actions)}
        asked = ["alpha protocol", "beta protocol"]
        report = Researcher("r", None, asked, tools(seen.append), 9, **own).report_sync("R")
        assert report.stop_reason == stop
    assert {*seen} >= {"read alpha", "read /beta"}
    assert len(seen) == len({*seen})
    assert {each.passage.url for each in report.citations} == {ALPHA, BETA}


def test_run_that_had_no_task_left_is_taken_further(tmp_path: Path) -> None:
    script: list[Any] = []  # a model that goes on is told how far the run has come
    tasks = (("search", {"query": "alpha"}), ("read", {"url": ALPHA}), ("read", {"url": BETA}))
    for count, task in enumerate(tasks, 1):
        topics = ["alpha", "beta", "gamma"][:count]
        said = ["Alpha uses port 4711.[^1^]"] if count > 1 else []
        new = [plan(task), *said, evaluation(dict.fromkeys(topics, 0.1)), plan()]
        script += new
        options = {"objectives": topics, "journal": tmp_path / "runs", "iterations": 9}
        more, model = research(script, **options)
        report = more.report_sync("R")
        assert report.detail == "no task is left that was not done"
        assert (report.iterations, len(model.received)) == (2 * count, len(new))
        again, _ = research([], **options)
        assert again.report_sync("R") == report


def test_researcher_of_another_role_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    research(SCRIPT[:2], journal=path, iterations=1)[0].report_sync("R")
    with pytest.raises(RunMismatch, match="role"):
        research(journal=path, role="A poet.")[0].report_sync("R")


def test_run_of_one_text_is_not_continued_by_another(tmp_path: Path) -> None:
    researcher = Researcher("r", None, tools=tools(), journal=tmp_path / "runs")
    assert researcher.reply_sync("the port of alpha", run_id="R").stop_reason == "done"
    with pytest.raises(RunMismatch, match="task"):
        researcher.reply_sync("the key of beta", run_id="R")


def test_state_of_a_researcher_continues_elsewhere() -> None:
    first, _ = research(SCRIPT[:2])
    asyncio.run(first.run())
    saved = json.loads(json.dumps(first.state_dict()))
    other, _ = research(SCRIPT[2:])
    other.load_state_dict(saved)
    assert other.report_sync().stop_reason == "done"

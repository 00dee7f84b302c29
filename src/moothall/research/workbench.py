"""The workbench: the findings, tools and model that a researcher's steps work with."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from moothall import Action, BudgetExceeded, JournalError, ModelError, ModelReply, Usage
from moothall.agents import ReplyRequest
from moothall.build import (
    NULL_RECORD,
    AnswerSchema,
    Record,
    Stop,
    ToolCalls,
    UnreadableText,
    Unusable,
    ask_value,
    completed,
    log_failure,
    shorten,
)
from moothall.research.extractive.question_words import similarity_scores
from moothall.research.findings import (
    Citation,
    Narrative,
    Passage,
    Progress,
    ProgressView,
    ResearchResult,
    ResearchTask,
    Resource,
    Support,
)
from moothall.research.resource_pool import ResourcePool, normalized_url, passages_of
from moothall.research.tool_calls import call_of, result_of
from moothall.research.writing.footnote_forms import with_footnotes
from moothall.research.writing.safe_markdown import safe_markdown
from moothall.research.writing.sections import whole_sentences

if TYPE_CHECKING:
    from moothall import Model
    from moothall.research.citations import CheckedNarrative, Verdict
    from moothall.research.citations.differences import Difference
    from moothall.research.researcher_protocol import ResearcherProtocol
    from moothall.research.writing.style import Style

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("moothall.research")

_UNSUPPORTED_MARK = " [unsupported]"
_MAX_SECTIONS = 3  # of a page that are looked at for a sentence that cites others
_TRIES: Final = 2
_CUT_REASONS = ("length", "content_filter")
"""The finish reasons of an answer that was cut."""


class Workbench(ProgressView):
    """What is known of one research, and what its steps work with: `forward(researcher)` gets it.

    A researcher has one for its own objectives, and one for each text that it is asked. It has the
    progress, the resources, the tools by name, and the model. What else a step reads of it is the
    researcher's.

    Args:
        agent: the researcher
        progress: what is known
    """

    progress: Progress

    def __init__(self, agent: ResearcherProtocol, progress: Progress) -> None:
        self.agent = agent
        self.run_id: str | None = None
        self.running: bool = False
        self.is_cut = False  # whether the plan had more tasks than the budget has actions
        self.request: ReplyRequest
        self.record: Record[Progress] = NULL_RECORD  # of the run that is under way
        self.reset(progress)

    def reset(self, progress: Progress) -> None:
        """Go on from this progress."""
        self.progress = progress
        self.resources: ResourcePool = ResourcePool(progress.changes)
        self.tasks: list[ResearchTask] = []
        self.results: list[ResearchResult] = []
        self.unnarrated_results: list[ResearchResult] = []  # also of a broken-off iteration
        self.step: str = ""  # the one that is under way
        self.waits_for_judge: bool = False  # the narrative has footnotes that were not judged yet
        # What the judge has said before this step: a sentence's passages by number.
        self.judged: dict[str, dict[int, Support]] = {}
        self.compared: set[tuple[str, str, str]] = set()  # sentences with passages of other pages
        self._passages: dict[str, list[Passage]] = {}
        self._contexts: dict[str, int | None] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._ask_count = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "agent":
            raise AttributeError(name)
        return getattr(self.agent, name)

    def begin(self, step: str) -> None:
        """Note that a step begins."""
        self.step, self._ask_count = step, 0
        if step == "narrate":
            self.judged = {}
            before = zip(self.progress.citations, self.progress.supports, strict=False)
            for (number, sentence), each in before:
                if each.judge == "model":
                    self.judged.setdefault(sentence, {})[number] = each

    def note_user_text(self, text: str) -> None:
        """Note what the user says during research, for the next step that asks the model."""
        self.progress.told.append(text)
        self.record.hear({"content": text})

    @property
    def tools(self) -> dict[str, Action]:
        """The tools, by name."""
        return self.agent.tools

    @property
    def model(self) -> Model | None:
        """The model of this step; None in the extractive form."""
        return self.agent.model_of(self.step)

    @property
    def style(self) -> Style:
        """How the report is to be written."""
        return self.agent.style

    @property
    def context_tokens(self) -> int | None:
        """How much a prompt and its answer may take together; None if it is not known."""
        own_tokens = self.agent.context_tokens or getattr(self.model, "context_tokens", None)
        return own_tokens or self._contexts.get(getattr(self.model, "name", ""))

    async def find_context(self) -> None:
        """Ask the model's server for its context, if it is not known; the answer is recorded."""
        find = getattr(self.model, "find_context", None)
        if self.context_tokens or find is None:
            return
        name = str(getattr(self.model, "name", ""))
        if name not in self._contexts:

            async def ask(_: Any) -> dict[str, int | None]:
                with suppress(ModelError):  # the first prompt will say so
                    return {"context_tokens": await find()}
                return {"context_tokens": None}

            key = f"{self.iteration}.{self.step}.context"
            self._contexts[name] = (await self.record.once(key, ask))["context_tokens"]

    @property
    def budget(self) -> Any:
        """What the run may spend, or None."""
        agent_budget = self.agent.budget
        return agent_budget if self.request.budget is None else self.request.budget

    @property
    def iteration(self) -> int:
        """The number of the current iteration, from 1."""
        return self.progress.iteration + 1

    @property
    def passages_by_number(self) -> dict[int, Passage]:
        """The passages that have a number, by number."""
        return dict(enumerate(self.progress.passages, 1))

    def is_new(self, task: ResearchTask, planned: Iterable[ResearchTask] = ()) -> bool:
        """Return whether a task was not done and is not in `planned`."""
        return all(each.key != task.key for each in (*self.done, *planned))

    def add(self, resource: Resource) -> None:
        """Add a resource that was found or read to the pool."""
        earlier = self.resources.find(resource.url)
        length_before = (
            len(earlier.content or "") if earlier is not None and earlier.visited else -1
        )
        self.progress.changes.append(resource)
        stored = self.resources.add(resource)
        self.progress.fresh += bool(stored.visited) and len(stored.content or "") > length_before
        self._passages.pop(stored.url, None)

    def unread(self, limit: int, topic: str | None = None) -> list[Resource]:
        """Return resources that no task tried, those that fit the topic or any objective first.

        What could not be read once comes last.
        """
        values = (value for task in self.done for value in task.args.values())
        tried_urls = {normalized_url(value) for value in values if isinstance(value, str)}
        topics = [topic] if topic is not None else [each.topic for each in self.objectives]
        unread = {
            Passage(each.url, f"{each.description or ''} {each.url}", "", each.url): each
            for each in self.resources.get_unvisited()
            if each.url not in tried_urls
        }
        best, failed = similarity_scores(unread, topics), " ".join(self.progress.failed)
        # Those that have none of the words come last, in the order in which they were found.
        ranked = sorted(unread, key=lambda e: (json.dumps(e.url) in failed, -best.get(e, 0.0)))
        return [unread[each] for each in ranked][:limit]

    def passages_of(self, resource: Resource) -> list[Passage]:
        """Return the passages of a resource that was read."""
        if resource.url not in self._passages:
            self._passages[resource.url] = passages_of(resource)
        return self._passages[resource.url]

    def known_passages(self) -> list[Passage]:
        """Return the passages of everything that was read."""
        read_resources = [each for each in self.resources.get_all() if each.visited]
        return [passage for each in read_resources for passage in self.passages_of(each)]

    def differences(self) -> list[Difference]:
        """Return where a source that was read says otherwise than the narrative."""
        from moothall.research.citations.differences import differing_citations

        supports = zip(self.progress.citations, self.progress.supports, strict=False)
        citations = [
            Citation(number, sentence, self.progress.passages[number - 1], support)
            for (number, sentence), support in supports
        ]
        judged = self.progress.contradictions
        return differing_citations(citations, self.known_passages(), judged)

    def fresh_passages(self) -> list[Passage]:
        """Return the passages of what was read since the last narrative."""
        read_resources = [
            each for result in self.unnarrated_results for each in result.resources if each.visited
        ]
        for at, each in enumerate(read_resources):  # one without a title has that of the pool
            if not each.description and (stored := self.resources.find(each.url)):
                read_resources[at] = replace(each, description=stored.description)
        return list(
            dict.fromkeys(passage for each in read_resources for passage in passages_of(each))
        )

    def number_of(self, passage: Passage) -> int:
        """Return the number by which a passage is cited; a new passage gets the next one."""
        passages, numbers = self.progress.passages, self._numbers
        for number in range(len(numbers) + 1, len(passages) + 1):
            stored = passages[number - 1]
            numbers.setdefault((stored.url, stored.sha256), number)
        key = (passage.url, passage.sha256)
        if key not in numbers:
            passages.append(passage)
            numbers[key] = len(passages)
        return numbers[key]

    def note(self, text: str) -> None:
        """Note what a reader of the report must know of how it was made."""
        self.progress.notes.append(f"iteration {self.iteration}: {text}")

    def note_replaced(self, part: str, error: Unusable) -> None:
        """Note that rules took the place of what a model's answers could not be used for."""
        fault = shorten(str(error), 200).rstrip(".")
        self.note(f"{part} is by rules, as the model's answer {fault}")

    def check_narrative(self, markdown: str, *, by_rules: bool = False) -> Narrative:
        """Check a narrative's footnotes, mark unsupported sentences, and store and return it."""
        from moothall.research.citations import check

        if not by_rules:
            cited = [each.url for each in self.progress.passages]
            markdown = safe_markdown(
                with_footnotes(markdown, self.passages_by_number), cited, shows_hosts=False
            )
        # A model that judges needs every footnote: it judges after this step.
        self.waits_for_judge = not by_rules and self.agent.judge is not None
        return self._note_citations(
            check(
                markdown,
                self.passages_by_number,
                by_rules=by_rules,
                keeps_all=self.waits_for_judge,
                find_section=None if by_rules else self._better_section,
            )
        )

    def apply_verdicts(self, judged: Mapping[str, Verdict]) -> None:
        """Check the narrative's footnotes by what a model has judged, else exactly."""
        from moothall.research.citations import check

        self.waits_for_judge = False
        self._note_citations(check(self.progress.narrative, self.passages_by_number, judged=judged))

    def _better_section(
        self, sentence: str, cited: Iterable[Passage], min_share: float
    ) -> tuple[int, Passage] | None:
        """Return a section of the cited pages, with its number, that has more of a sentence."""
        from moothall.research.citations.exact_support import exact_support

        cited_keys = {(each.url, each.sha256): each for each in cited}
        pages = {each.url.partition("#")[0] for each in cited_keys.values()}
        candidates = [
            each
            for each in self.known_passages()
            if each.url.partition("#")[0] in pages and (each.url, each.sha256) not in cited_keys
        ]
        scores = similarity_scores(candidates, [sentence])
        for each in sorted(scores, key=lambda candidate: -scores[candidate])[:_MAX_SECTIONS]:
            support = exact_support(sentence, each.text, each.title)
            if support.label != "unsupported" and support.overlap >= min_share:
                return self.number_of(each), each
        return None

    def _note_citations(self, checked: CheckedNarrative) -> Narrative:
        """Store a checked narrative, with what was marked before marked again; return it."""
        progress = self.progress
        text = checked.markdown
        # A sentence that was marked before and comes back without its footnote is marked again.
        checked_sentences = [sentence for sentence, _ in checked.unsupported]
        checked_sentences += [each.sentence for each in checked.citations]
        rechecked = [
            each
            for each in progress.unsupported
            if text.count(each[0]) > sum(sentence.count(each[0]) for sentence in checked_sentences)
        ]
        for sentence in dict(rechecked):
            text = text.replace(sentence, sentence + _UNSUPPORTED_MARK)
        progress.narrative = text
        progress.citations = [(each.number, each.sentence) for each in checked.citations]
        progress.supports = [each.support for each in checked.citations if each.support]
        progress.unsupported = [*checked.unsupported, *rechecked]
        progress.uncited = max(checked.uncited - len(rechecked), 0)
        return self.narrative

    async def execute(self, tasks: list[ResearchTask]) -> list[ResearchResult]:
        """Execute tasks side by side, each recorded, approved and counted as a call of an action.

        If a tool fails, its result says why. Raises `Stop` if the budget is too small, its time
        is over, or a call is in doubt.
        """
        calls = [call_of(task, n, self.tools, self.resources) for n, task in enumerate(tasks, 1)]
        possible_calls = [call for call in calls if call.fault is None]
        if doubts := ToolCalls.doubts_in(self.record, self.iteration):
            raise Stop("in_doubt", doubts)
        tool_calls = ToolCalls(cast(Any, self.agent), possible_calls, self.request, self.iteration)
        try:
            if possible_calls:
                await tool_calls.execute(self.budget)
                if tool_calls.stops:
                    raise tool_calls.end
        finally:
            results = [None if each.result is None else each.result.data for each in calls]
            self.results = [
                result_of(task, {"error": call.fault} if call.fault else result)
                for task, call, result in zip(tasks, calls, results, strict=True)
            ]
        return self.results

    async def ask_model(
        self,
        messages: list[dict[str, Any]],
        schema: Any = None,
        read: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Ask the model, on the run's budget; a recorded answer is returned again.

        If the answer does not fit the schema, or `read` raises, the model is told what is wrong
        and asked once more. Raises `Stop` if the second answer cannot be used either, the model
        fails or the budget is too small.
        """
        answer = None if schema is None else AnswerSchema(schema)

        def value_of(text: str) -> Any:
            value = text if answer is None else answer.parse(text)
            return value if read is None else read(value)

        try:
            return await self.ask_until_usable(
                messages, value_of, None if answer is None else answer.json
            )
        except Unusable as error:
            raise self.unreadable(error) from None

    def unreadable(self, error: Unusable) -> Stop:
        """Return the Stop for answers that cannot be used."""
        return Stop("unreadable", f"{self.step}: its answer {shorten(str(error), 200)}")

    async def ask_until_usable(
        self,
        messages: list[dict[str, Any]],
        read: Callable[[str], T],
        schema: dict[str, Any] | None = None,
        *,
        at: str = "",
    ) -> T:
        """Return what `read` makes of the model's answer; raise Unusable if two cannot be used.

        Steps that ask side by side say where they are by `at`, as the answers are recorded by it.
        """
        if not at:
            self._ask_count += 1
        key = f"{self.iteration}.{self.step}.{at or self._ask_count}"

        is_truncated, is_last_try = False, False

        async def ask(prompt: list[dict[str, Any]], number: int) -> Any:
            nonlocal is_truncated, is_last_try
            answer = await self._ask_recorded(
                f"{key}.{number}", prompt, schema, side_by_side=bool(at)
            )
            is_truncated = schema is None and getattr(answer, "finish_reason", "") in _CUT_REASONS
            is_last_try = number == _TRIES
            calls = getattr(answer, "calls", None)
            if self.step == "plan" and calls and not at:  # a plan, as providers write calls
                tasks = [{"tool": each.name, "args": each.args} for each in calls]
                return json.dumps({"tasks": tasks}, default=str)
            return answer

        def read_whole(text: str) -> T:
            if is_truncated:
                sentences = whole_sentences(text)
                if not (is_last_try and sentences):
                    raise UnreadableText(
                        "was cut at the limit of its length: say it shorter, to its end"
                    )
                self.note("an answer was cut at the limit of its length, after a whole sentence")
                text = sentences
            return read(text)

        return await ask_value(ask, messages, schema, read_whole, tries=_TRIES)

    async def _ask_recorded(
        self, key: str, prompt: list[Any], schema: dict[str, Any] | None, *, side_by_side: bool
    ) -> Any:
        name = getattr(self.model, "name", None)
        is_draft = self.step == "narrate" and schema is None and not side_by_side
        emit_draft = self.request.draft_emitter(str(self.agent.id)) if is_draft else None
        ask = partial(completed, self.model, self.budget, prompt, schema, tell=emit_draft)
        try:
            answer = await self.record.once(
                key, ask, of=ModelReply, beside=side_by_side, model=name
            )
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the model of agent {self.agent.id!r} failed", error)
            raise Stop("error", f"{type(error).__name__}: {error}", error) from error
        self.note_usage(answer, name)
        return answer

    def note_usage(self, answer: Any, name: str | None) -> None:
        """Add to the report's foot what an answer of a model took."""
        usage = Usage.in_answer(answer)
        self.progress.usage = self.progress.usage + usage
        usage_by_model = self.progress.used
        usage_by_model[str(name)] = usage_by_model.get(str(name), Usage()) + usage

"""The workbench: the findings, tools and model that a researcher's steps work with."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from moothall.action import Action
from moothall.environment import Environment
from moothall.errors import BudgetExceeded, JournalError
from moothall.models.ask import Messages, Unusable, ask_json
from moothall.models.protocol import Usage
from moothall.reasoning.charging import completed
from moothall.reasoning.conversational import ConversationalAgent
from moothall.reasoning.group import check_model
from moothall.reasoning.loop.calls import Calls, doubts_of
from moothall.reasoning.record import NULL_RECORD, Record
from moothall.reasoning.reply import Stop
from moothall.reasoning.reply_request import AnswerSchema, ReplyRequest
from moothall.reasoning.state import ANSWER
from moothall.research.calling import call_of, result_of
from moothall.research.findings import (
    Findings,
    Narrative,
    Objective,
    Passage,
    Progress,
    ResearchResult,
    ResearchTask,
    Resource,
)
from moothall.research.pool import ResourcePool, normalized, passages_of
from moothall.research.relevance import Index
from moothall.text import log_failure, shorten

if TYPE_CHECKING:
    from moothall.models.protocol import Model
    from moothall.research.citations import Checked

logger: logging.Logger = logging.getLogger("moothall.research")

_MARK = " [unsupported]"


class Workbench(ConversationalAgent):
    """The findings, the tools by name and the model that a researcher's steps work with."""

    environment: ClassVar[Environment] = Environment()
    tools: dict[str, Action]
    role: str
    target: float
    max_tasks: int
    steps: dict[str, Any]
    _model: Any
    _judge: Any = None
    _waits_for_judge: bool = False  # the narrative has footnotes that were not judged yet
    _owner: Any
    _request: ReplyRequest
    _record: Record[Progress] = NULL_RECORD  # of the run that is under way

    def _reset_progress(self, progress: Progress) -> None:
        self.progress = progress
        self.resources: ResourcePool = ResourcePool(progress.changes)
        self.tasks: list[ResearchTask] = []
        self.results: list[ResearchResult] = []
        self._passages: dict[str, list[Passage]] = {}
        self._step = ""
        self._asks = 0
        self.run_id: str | None = None

    @property
    def model(self) -> Model | None:
        """The model; None in the extractive form. A model given by name is made on first use."""
        if isinstance(self._model, str):
            from moothall.models.names import model as by_name

            self._model = by_name(self._model)
        return self._model  # type: ignore[no-any-return]

    @model.setter
    def model(self, model: Model | str | None) -> None:
        if model is not None:
            check_model(model, self.id)
        self._model = model

    @property
    def judge(self) -> Model | None:
        """The model that judges citations; None for the learned judge."""
        if isinstance(self._judge, str):
            from moothall.models.names import model as by_name

            self._judge = by_name(self._judge)
        return self._judge  # type: ignore[no-any-return]

    @property
    def objectives(self) -> list[Objective]:
        """The given objectives, with the expertise reached."""
        return self.progress.objectives

    @property
    def generated(self) -> list[Objective]:
        """The smaller objectives that Evaluate derived from the given ones."""
        return self.progress.generated

    @property
    def narrative(self) -> Narrative:
        """The latest narrative; its footnotes are keys of `numbered`."""
        return Narrative(self.progress.narrative)

    @property
    def findings(self) -> Findings | None:
        """What the last Evaluate found; None before the first."""
        known = self.progress
        return Findings(known.narrative, known.remark, known.generated) if known.iteration else None

    @property
    def done(self) -> list[ResearchTask]:
        """The tasks that were done in all iterations."""
        return self.progress.done

    @property
    def unsupported(self) -> list[tuple[str, str]]:
        """Sentences that their sources do not support, each with the reason."""
        return self.progress.unsupported

    @property
    def iteration(self) -> int:
        """The number of the current iteration, from 1."""
        return self.progress.iteration + 1

    @property
    def numbered(self) -> dict[int, Passage]:
        """The passages that have a number, by number."""
        return dict(enumerate(self.progress.passages, 1))

    def is_new(self, task: ResearchTask, beside: Iterable[ResearchTask] = ()) -> bool:
        """Return whether a task was not done and is not in `beside`."""
        key = _key(task)
        return all(_key(each) != key for each in (*self.done, *beside))

    def add(self, resource: Resource) -> None:
        """Add a resource that was found or read to the pool."""
        known = self.resources.find(resource.url)
        before = len(known.content or "") if known is not None and known.visited else -1
        self.progress.changes.append(resource)
        kept = self.resources.add(resource)
        self.progress.fresh += bool(kept.visited) and len(kept.content or "") > before
        self._passages.pop(kept.url, None)

    def unread(self, limit: int, topic: str | None = None) -> list[Resource]:
        """Return resources that no task tried, those that fit the topic or any objective first."""
        values = (value for task in self.done for value in task.args.values())
        tried = {normalized(value) for value in values if isinstance(value, str)}
        topics = [topic] if topic is not None else [each.topic for each in self.objectives]
        unread = {
            Passage(each.url, f"{each.description or ''} {each.url}", "", each.url): each
            for each in self.resources.get_unvisited()
            if each.url not in tried
        }
        best = Index(unread).best(topics)
        # Those that have none of the words come last, in the order in which they were found.
        return [unread[each] for each in sorted(unread, key=lambda e: -best.get(e, 0.0))][:limit]

    def passages_of(self, resource: Resource) -> list[Passage]:
        """Return the passages of a resource that was read."""
        if resource.url not in self._passages:
            self._passages[resource.url] = passages_of(resource)
        return self._passages[resource.url]

    def known_passages(self) -> list[Passage]:
        """Return the passages of everything that was read."""
        read = [each for each in self.resources.get_all() if each.visited]
        return [passage for each in read for passage in self.passages_of(each)]

    def fresh_passages(self) -> list[Passage]:
        """Return the passages of what this iteration has read."""
        read = [each for result in self.results for each in result.resources if each.visited]
        titled = map(self._titled, read)
        return list(dict.fromkeys(passage for each in titled for passage in passages_of(each)))

    def _titled(self, resource: Resource) -> Resource:
        """Return a resource; one without a title has that of the pool, such as a search gave it."""
        known = None if resource.description else self.resources.find(resource.url)
        return resource if known is None else replace(resource, description=known.description)

    def number_of(self, passage: Passage) -> int:
        """Return the number by which a passage is cited; a new passage gets the next one."""
        for number, known in self.numbered.items():
            if (known.url, known.sha256) == (passage.url, passage.sha256):
                return number
        self.progress.passages.append(passage)
        return len(self.progress.passages)

    def checked(self, markdown: str, *, by_rules: bool = False) -> Narrative:
        """Check a narrative's footnotes, mark unsupported sentences, and store and return it."""
        from moothall.research.citations import check

        # A model that judges needs every footnote: it judges after this step.
        waits = self._waits_for_judge = self._judge is not None and not by_rules
        found = check(markdown, self.numbered, by_rules=by_rules, keeps_all=waits)
        return self.note_citations(found)

    def note_citations(self, found: Checked) -> Narrative:
        """Store a checked narrative, with what was marked before marked again; return it."""
        progress = self.progress
        text = found.markdown
        # A sentence that was marked before and comes back without its footnote is marked again.
        now = [sentence for sentence, _ in found.unsupported]
        now += [each.sentence for each in found.citations]
        again = [
            each
            for each in progress.unsupported
            if text.count(each[0]) > sum(sentence.count(each[0]) for sentence in now)
        ]
        for sentence, _ in again:
            text = text.replace(sentence, sentence + _MARK)
        progress.narrative = text
        progress.citations = [(each.number, each.sentence) for each in found.citations]
        progress.supports = [each.support for each in found.citations if each.support]
        progress.unsupported = [*found.unsupported, *again]
        progress.uncited = max(found.uncited - len(again), 0)
        return self.narrative

    async def execute(self, tasks: list[ResearchTask]) -> list[ResearchResult]:
        """Execute tasks side by side, each recorded, approved and counted as a call of an action.

        If a tool fails, its result says why. Raises `Stop` if the budget is too small, its time
        is over, or a call is in doubt.
        """
        calls = [call_of(task, n, self.tools, self.resources) for n, task in enumerate(tasks, 1)]
        good = [call for call in calls if call.fault is None]
        if doubts := doubts_of(self._record, self.iteration):
            raise Stop("in_doubt", doubts)
        # A task that the budget refused is done when the run is resumed with more.
        work = Calls(
            cast(Any, self._owner),
            good,
            self._request,
            self._record,
            self.iteration,
            keeps_refused=False,
        )
        budget = self._budget
        try:
            if good:
                await (work.execute() if budget is None else work.within(budget))
        finally:
            self.results = [
                result_of(task, {"error": call.fault} if call.fault else call.result)
                for task, call in zip(tasks, calls, strict=True)
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
        self._asks += 1
        key = f"{self.iteration}.{self._step}.{self._asks}"
        answer = None if schema is None else AnswerSchema(schema)
        form = None if answer is None else answer.json

        async def ask(prompt: Messages, number: int) -> Any:
            return await self._answer(f"{key}.{number}", prompt, form)

        def value_of(text: str) -> Any:
            value = text if answer is None else answer.parse(text)
            return value if read is None else read(value)

        try:
            return await ask_json(ask, messages, form, value_of)
        except Unusable as error:
            why = f"{self._step}: its answer {shorten(str(error), 200)}"
            raise Stop("unreadable", why) from None

    async def _answer(self, key: str, prompt: list[Any], schema: dict[str, Any] | None) -> Any:
        name = getattr(self.model, "name", None)
        ask = partial(completed, self.model, self._budget, prompt, schema)
        try:
            given = await self._record.step(key, ask, of=ANSWER, model=name)
        except BudgetExceeded as error:
            raise Stop.at_limit(error) from error
        except (JournalError, Stop):
            raise
        except Exception as error:
            log_failure(logger, f"the model of agent {self.id!r} failed", error)
            raise Stop("error", f"{type(error).__name__}: {error}", error) from error
        usage = getattr(given, "usage", None)
        if isinstance(usage, Usage):
            self.progress.usage = self.progress.usage + usage
        return given

    @property
    def _budget(self) -> Any:
        return self._owner.budget if self._request.budget is None else self._request.budget


def _key(task: ResearchTask) -> str:
    return f"{task.tool} {json.dumps(task.args, sort_keys=True, default=str)}"

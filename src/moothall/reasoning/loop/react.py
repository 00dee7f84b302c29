"""The loop: a model chooses actions, an environment executes them, memory keeps the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moothall.errors import StateError
from moothall.reasoning.group import budget_of
from moothall.reasoning.loop.parts import LoopAgent
from moothall.reasoning.loop.recording import KIND, LoopState, catch_up, program_of
from moothall.reasoning.loop.run import Run
from moothall.reasoning.record import Record
from moothall.reasoning.reply import Reply
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.state import memory_state, opened, restore_memory, state
from moothall.reasoning.thread import Thread, Threads

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Part


class ReActAgent(LoopAgent):
    """An agent that answers with the help of a model and of actions.

    For each reply, the model gets the system prompt, the goals and the memories. It answers or
    calls actions, whose results are remembered and shown to it, until it answers or a terminal
    action succeeds.

    Args:
        id: its id
        model: a model, or the name of one such as `local`
        actions: what its model may call: a registry, or actions, functions, `@action` methods and
            agents (with all their actions). Nobody else is offered them.
        goals: its goals
        memory: a memory, of which each thread has its part by `thread(id)`; or a function that
            makes the memory of a thread from its id (None for the agent's own). By default each
            thread remembers as much as fits half of the model's context, or 8,192 tokens if the
            model's `context_tokens` is None
        environment: where actions are executed
        system_prompt: the agent's role, as text for the model; or a function of the `Context` of a
            reply that returns it, sync or async. It is called once for each run, and a resumed run
            uses the recorded text.
        max_iterations: how many answers the model may give for one reply
        discover: `*` to let the model call the actions of every other agent of the space, or the
            ids of some; their help is read before each reply, for its thread
        max_result_chars: how many characters of each result the model is shown; fewer if the
            results of one answer would take more than about half of its context
        check: called with the value of each final answer (by the schema, else the text), and with
            the `Context` if it takes two arguments; sync or async. If it raises `AskAgain("…")`,
            the model is told that and answers again. It must return None or the value.
        tries: how often in a row the model is asked again after an answer that cannot be used,
            before the reply ends as `unreadable`
        budget: what its replies together may spend; a reply stops before it would spend more
        journal: a `Journal`, or the path of one, that records its replies, so that they can be
            resumed after a crash
        **options: the options of `Agent`, and `shared=`: one conversation with all senders,
            required in a space if the memory has no `thread(id)`

    Attributes:
        actions: the registry of what its model may call
        goals: the list of its goals; like `system_prompt` and `max_iterations` it may be changed

    Raises:
        InvalidId: the id is not valid
        DefinitionError: an argument is not valid
        ModelError: no model has that name, or there is no key for it
        WeightsError: the model's weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
        JournalError: the journal cannot be used
    """

    _kind = KIND
    _state_type = LoopState

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the memory as JSON, to be loaded into an agent made in the same way.

        During a reply, it is what the agent remembers so far.

        Raises:
            StateError: something remembered is not JSON
        """
        threads = {
            thread.id: memory_state(thread.memory)
            for thread in self._threads or ()
            if thread.memory is not None and not getattr(thread.memory, "_in_file", False)
        }
        return state(KIND, memory=memory_state(self.memory), threads=threads)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Replace the memory by the one in a state.

        Raises:
            StateError: the state is not one of such an agent; then nothing has changed, unless the
                memory is a user's own class
        """
        found = opened(saved, KIND)
        threads = found.get("threads")
        if not isinstance(threads, dict):
            raise StateError(f"agent {self.id!r}: the state of its threads is not an object")
        for thread in self._threads or ():
            assert thread.id is not None
            self._forget_memory(thread.id)
        made = Threads(self.shared)
        for id, given in threads.items():
            restore_memory(self._memory_of(made.get(id)), given, self.id)
        restore_memory(self.memory, found.get("memory"), self.id)
        made.default.memory = self.memory
        self._threads = made

    # -- the loop ----------------------------------------------------------------------------------

    def _check_request(self, request: ReplyRequest) -> None:
        self._memory_of(request.state)

    async def _work(self, request: ReplyRequest, record: Record[LoopState]) -> Reply:
        if self.discover is not None and self._mailbox is not None:
            await self._discover(request.state)
        return await Run(self, request, self._memory_of(request.state), record).reply()

    def _program(self) -> dict[str, Any]:
        return program_of(self)

    async def _restore(self, part: Part, budget: Budget | None) -> None:
        record = Record(part, LoopState)
        if record.begun is not None:
            memory = self._memory_of(self._kept.get(record.begun["thread"]))
            catch_up(self, record, memory, budget_of(self, budget))

    async def _remember(self, message: dict[str, Any], thread: Thread) -> None:
        memory = self._memory_of(thread)
        once = self._as_once()
        add_once: Any = getattr(memory, "add_once", None)
        if once is not None and callable(add_once):
            add_once(message, *once)
        else:
            memory.add_memory(message)

    async def _discover(self, thread: Thread) -> None:
        from moothall.reasoning.loop.discovery import discover

        found = await discover(self, self.discover or ())
        thread.discovered, thread.shown = {each.name: each for each in found}, None

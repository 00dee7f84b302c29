"""The chat agent: its model answers what is said to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    Context,
    ContextOverflow,
    DefinitionError,
    Model,
    ModelError,
    ModelReply,
    ReasoningPiece,
    SystemPrompt,
    TextPiece,
    TokenBoundedMemory,
    action,
)
from moothall.build import Thread, Threaded, WorkSpan, completed, shorten
from moothall.memory import DEFAULT_TOKENS, MemoryPart

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents import AgentOptions


# No name: a small model that is given one, such as Chatty, repeats it without end.
_PROMPT: Final = "You are a helpful assistant. Answer in one sentence."


class ChattyAI(Threaded):
    """Answers messages with a model, and remembers its conversation with each sender.

    It has one conversation with each sender, or several by `say(thread=)`, and a thousand at most:
    it forgets the least recently used. A conversation may fill half of its model's context, since
    the new message and the answer need room too. If a message does not fit beside the conversation,
    it is answered without the conversation. If the model fails, the sender gets the error, and the
    message is not remembered. Watchers (`watch`) receive the pieces of its answers as the model
    streams them.

    Args:
        id: its id
        model: a model, or the name of one, which is loaded on first use
        system_prompt: the system prompt, or a function of the `Context` that returns it for a
            message, sync or async; an empty text for none. Default: a helpful assistant that
            answers in one sentence
        memory: where its conversations are kept, as `ReActAgent` takes it: a memory with threads,
            such as a `SQLiteMemory`, or the path of a file of its own for one, with which
            they outlive a restart; or a function of the thread's id. Default: in the process only
        **options: what every `Agent` takes

    Raises:
        DefinitionError: an argument is not valid
    """

    def __init__(
        self,
        id: str | int,
        model: Model | str = "local",
        *,
        system_prompt: SystemPrompt | None = None,
        memory: MemoryPart | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(id, **options)
        self.take_parts(model=model, memory=memory, system_prompt=system_prompt)
        if (fault := self.thread_fault()) is not None:
            raise DefinitionError(
                f"agent {id!r} has a conversation with each sender, which its memory= cannot keep "
                f"apart: {fault}; pass a SQLiteMemory, or a function of the thread's id that makes "
                "a memory"
            )

    is_untracked: bool = True
    model_or_name: Model | str
    system_prompt: SystemPrompt | None = _PROMPT

    @property
    def model(self) -> Model:
        """The model; one given by name is made on first use."""
        if isinstance(self.model_or_name, str):
            from moothall import model

            self.model_or_name = model(self.model_or_name)
        return self.model_or_name

    @action(guard=())
    async def say(self, content: str, thread: str | None = None) -> str:
        """Say something to the agent.

        Args:
            content: what to say
            thread: which of your conversations with the agent this belongs to

        Returns:
            What the agent answers
        """
        with self.in_turn(self.thread_of_message(thread)) as conversation:
            say = partial(self._say, content, conversation)
            return await WorkSpan("reply", self, None).hold(say)

    async def _say(self, content: str, thread: Thread) -> str:
        conversation = thread.memory
        if conversation is None:
            conversation = thread.memory = self.memory_for(thread.id)
        if conversation is None:
            context_tokens = getattr(self.model, "context_tokens", None)
            conversation = thread.memory = TokenBoundedMemory(
                DEFAULT_TOKENS if context_tokens is None else max(context_tokens // 2, 1),
                getattr(self.model, "count_tokens", None),
            )
        message = self.current_message
        thread_fields: dict[str, Any] = {"thread": thread.id, "kept_thread": thread.id}
        context: Context[Any] = Context(self, message=message, deps=self.deps, **thread_fields)
        system = await self.prompt_for(context)
        request = {"role": "user", "content": content}
        earlier = conversation.get_memories()
        try:
            answer = await self._answer(system, [*earlier, request])
        except ContextOverflow:
            if not earlier:
                raise
            answer = await self._answer(system, [request])
        conversation.add_memory(request)
        conversation.add_memory({"role": "assistant", "content": answer})
        return answer

    async def _answer(self, system: str, prompt: list[dict[str, Any]]) -> str:
        if system:
            prompt.insert(0, {"role": "system", "content": system})
        tell, id = self.event_teller(), str(self.id)
        if tell is None:
            return self._text_of(await completed(self.model, None, prompt, None, None))

        def tell_part(part: TextPiece | ReasoningPiece) -> None:
            tell(replace(part, agent=id))

        return self._text_of(await completed(self.model, None, prompt, None, None, tell_part))

    def _text_of(self, answer: Any) -> str:
        if not ModelReply.can_read(answer):
            kind = shorten(type(answer).__name__)
            raise ModelError(f"the model of agent {self.id!r} gave no answer but {kind}")
        return (answer.text or "").strip()

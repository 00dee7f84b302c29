"""Questions to a model about a conversation, whose answers are recorded and paid for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.replies.charging import completed
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.agents.replies.state import ANSWER
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import cut
from moothall.memory.bounded import DEFAULT_TOKENS, estimate_tokens
from moothall.models.ask import Messages, ask_value
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.reply import Utterance
    from moothall.models.protocol import Model

_LEAST_TOKENS = 64
_LEAST_CHARS = 100


class ChoiceQuestions:
    """Questions to one model in one choice; `usage` is the tokens that they took."""

    def __init__(
        self,
        model: Model,
        state: ConversationState,
        head: str,
        transcript: Sequence[Utterance] | None = None,
    ) -> None:
        self.usage: Usage = Usage()
        self._model = model
        self._state = state
        self._head = head
        self._transcript = state.transcript if transcript is None else transcript

    async def ask(self, key: str, ending: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question that ends the prompt; its last line says the form.

        Raises:
            Unusable: no answer could be used
        """
        state, answer_schema = self._state, AnswerSchema(schema)

        async def ask_model(prompt: Messages, number: int) -> Any:
            completion = await state.record.once(
                f"{key}.{state.turns + 1}.{number}",
                partial(completed, self._model, state.budget, prompt, answer_schema.json),
                of=ANSWER,
                model=getattr(self._model, "name", None),
            )
            self.usage = self.usage + Usage.in_answer(completion)
            return completion

        prompt, form = self._prompt(ending), ending.rpartition("\n")[2]
        answer: dict[str, Any] = await ask_value(
            ask_model, prompt, answer_schema.json, answer_schema.parse, form=form, examples=ending
        )
        return answer

    def _prompt(self, ending: str) -> Messages:
        """Return the prompt, with as many utterances as fit half of the model's context."""
        context = getattr(self._model, "context_tokens", None)
        count_tokens = getattr(self._model, "count_tokens", None) or estimate_tokens
        tokens = context // 2 if isinstance(context, int) else DEFAULT_TOKENS
        tokens = max(tokens - count_tokens(self._head) - count_tokens(ending), _LEAST_TOKENS)
        # Cut a long utterance, so that it does not displace all earlier ones.
        max_chars = max(tokens // 2, _LEAST_CHARS)
        lines: list[str] = []
        for each in reversed(self._transcript):
            content = {"text": each.text} if each.error is None else {"error": each.error}
            line = json_line(
                {"from": each.speaker} | {k: cut(v, max_chars) for k, v in content.items()}
            )
            size = count_tokens(line)
            if size > tokens and lines:
                break
            tokens -= size
            lines.append(line)
        said_so_far = "\n".join(reversed(lines))
        return [
            {"role": "system", "content": self._head},
            {
                "role": "user",
                "content": f"The conversation, latest message last:\n{said_so_far}\n{ending}",
            },
        ]

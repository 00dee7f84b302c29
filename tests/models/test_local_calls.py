"""How a model in the process calls actions: the form of its calls, and which it must make."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from moothall import AskAgain, Budget, ReActAgent, TextPiece, Usage
from moothall.foundation.errors import ModelError
from moothall.models import BudgetedModel, LocalModel, ModelReply, model
from moothall.models.blocks import without_seen
from moothall.models.calling.choice import OneCall
from moothall.models.calling.listed import SeveralCalls
from moothall.models.plain_chat import plain_chat
from moothall.models.protocol import StreamPart
from moothall.testing.model_suite import ACTIONS, run, user_message

pytestmark = pytest.mark.xdist_group("local_model")


def test_local_model_of_others_weights_makes_a_list_of_calls_or_answers(
    shallow_of_others: Path,
) -> None:
    with LocalModel(shallow_of_others, max_tokens=24, context_tokens=2048) as model:
        reply = run(model.complete(user_message("Add 2 and 3, and add 4 and 5"), ACTIONS[:1]))
    assert reply.calls or reply.text or reply.finish_reason == "length"


def test_local_model_with_tool_choice_calls_the_named_action(shallow: Path) -> None:
    with LocalModel(shallow, max_tokens=24, tool_choice="list_files") as forced:
        made = run(forced.complete(user_message("Good morning!"), ACTIONS))
    assert [call.name for call in made.calls] == ["list_files"]
    with pytest.raises(ModelError, match="tool_choice= names 'other', which is no action"):
        run(LocalModel(shallow, tool_choice="other").complete(user_message("Hi"), ACTIONS))


@pytest.mark.parametrize("form", (OneCall(), SeveralCalls()))
def test_local_model_reads_calls_that_a_program_gives_without_all_their_parts(
    form: OneCall,
) -> None:
    """A call without a name is none; where there is no id, no result names it."""
    calls = [{"name": "look"}, {"name": "sum", "args": {"a": 1}}]
    given: list[Any] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool"},
    ]
    written = plain_chat(given, "m", form)
    assert '"look", "args": {}' in written[1]["content"]
    assert '"sum", "args": {"a": 1}' in written[1]["content"]
    assert written[2]["content"].startswith("Result of ")
    calls.append({"id": "1"})
    with pytest.raises(ModelError, match=r"m: messages\[1\]: tool_calls\[2\] is not a call"):
        plain_chat(given, "m", form)


def test_results_without_content_are_read_beside_those_with_images() -> None:
    given = [{"role": "tool", "tool_call_id": "1"}]
    assert without_seen(given) == given


def test_model_by_the_name_of_a_file_says_how_it_is_written() -> None:
    with pytest.raises(ModelError, match=r"is a file: write gguf:/models/a\.gguf"):
        model("local:/models/a.gguf")


def test_local_model_is_warmer_in_a_second_try(shallow: Path) -> None:
    seen = []

    class Heard(LocalModel):
        def _body(self, *args: Any) -> Any:
            made = super()._body(*args)
            seen.append(made[0]["temperature"])
            return made

    def refuse(value: str) -> None:
        raise AskAgain("Say it in other words.")

    with Heard(shallow, max_tokens=4, context_tokens=512, temperature=0.0) as heard:
        agent = ReActAgent("a", heard, check=refuse, tries=1)
        assert agent.reply_sync("Say hello").stop_reason == "unreadable"
        run(heard.complete(user_message("Say hello")))
    assert seen == [0.0, 0.6, 0.0]


class Scripted(LocalModel):
    """Weights whose engine gives answers of a script, each in two pieces."""

    def _own_engine(self, engine: Any) -> None:
        super()._own_engine(engine)
        self._engine = self  # type: ignore[assignment]

    answers: list[ModelReply]

    async def generate(self, body: Any) -> AsyncGenerator[StreamPart, None]:
        reply = self.answers.pop(0)
        middle = len(reply.text) // 2
        yield TextPiece(reply.text[:middle])
        yield TextPiece(reply.text[middle:])
        yield reply


UNREADABLE = ModelReply('{"x": 1}', usage=Usage(100, 50))


def test_local_model_second_try_that_is_cut_off_has_its_text_and_the_tokens_of_both(
    shallow_of_others: Path,
) -> None:
    cut = ModelReply(
        '[{"action": "answer", "args": {"text": "It is sunny',
        usage=Usage(10, 5),
        finish_reason="length",
    )

    async def parts() -> list[StreamPart]:
        with Scripted(shallow_of_others) as local:
            local.answers = [UNREADABLE, cut]
            return [each async for each in local.stream(user_message("Hello"), ACTIONS)]

    *pieces, reply = run(parts())
    assert "".join(each.text for each in pieces) == reply.text == "It is sunny"
    assert (reply.usage, reply.finish_reason) == (Usage(110, 55), "length")


def test_local_model_without_a_readable_answer_spends_the_tokens_of_both_tries(
    shallow_of_others: Path,
) -> None:
    budget = Budget(tokens=100_000)
    with Scripted(shallow_of_others) as local:
        local.answers = [UNREADABLE, ModelReply("{}", usage=Usage(10, 5))]
        with pytest.raises(ModelError, match="chose nothing readable") as caught:
            run(BudgetedModel(local, budget).complete(user_message("Hello"), ACTIONS))
    assert caught.value.usage == Usage(110, 55)
    assert budget.spent.tokens == 165


def test_answer_of_the_examples_in_a_list_of_calls_is_unreadable_and_never_streamed() -> None:
    form = SeveralCalls()
    head = form.prompt_part(ACTIONS[:1], may_answer=True)
    copied = next(each for each in head.splitlines() if each.startswith('[{"action": "answer"'))
    with pytest.raises(ValueError, match="repeats an example"):
        form.read(ModelReply(copied), user_message("How much is my bill?"), ACTIONS[:1])
    text = form.answer_text(ACTIONS[:1])
    assert "".join(map(text.add, copied)) == ""
    own = copied.replace("animals", "bills")
    text = form.answer_text(ACTIONS[:1])
    assert "".join(map(text.add, own)) == "No action knows the age of bills."
    assert form.read(ModelReply(own), [], ACTIONS[:1]).text == "No action knows the age of bills."

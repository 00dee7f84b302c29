from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall.actions import Action
from moothall.foundation.errors import (
    ConfigError,
    ContextOverflow,
    DefinitionError,
    ModelError,
    WeightsError,
)
from moothall.models import LocalModel, Model, ModelReply, TextPiece
from moothall.testing.model_suite import (
    ACTIONS,
    StreamingModelConformance,
    joined_text,
    parts_of,
    run,
    user_message,
)

# One worker loads the model and has the processor to itself as far as these tests go.
pytestmark = pytest.mark.xdist_group("local_model")

BRIEF = 6
STORY = "Tell a very long story about a fox who walks through every town of the world."


@pytest.fixture(scope="module")
def local(weights: Path) -> Iterator[LocalModel]:
    """A model that tests share which need sense in its answers, short ones."""
    with LocalModel(weights, max_tokens=32, context_tokens=2048) as model:
        yield model


@pytest.fixture(scope="module")
def brief(shallow: Path) -> Iterator[LocalModel]:
    """One whose answers may be cut."""
    with LocalModel(shallow, max_tokens=BRIEF, context_tokens=2048) as model:
        yield model


@pytest.fixture(scope="module")
def single(shallow: Path) -> Iterator[LocalModel]:
    """A model with one slot, free after each test, and answers longer than any test waits for."""
    with LocalModel(shallow, slots=1, max_tokens=4000, context_tokens=4096) as model:
        yield model


class TestLocalModel(StreamingModelConformance):
    begins_s = 0.005

    @pytest.fixture(autouse=True)
    def _shared(self, local: LocalModel, brief: LocalModel) -> None:
        self.local, self.brief = local, brief

    def make(self, *answers: Any) -> Model:
        sense = any(isinstance(each, dict) or str(each).startswith("{") for each in answers)
        return self.local if sense else self.brief

    def test_model_stream_answers_after_a_result(self) -> None:
        self.brief = self.local  # a choice that is cut is no text
        super().test_model_stream_answers_after_a_result()


# -- answers ---------------------------------------------------------------------------------------


def test_usage_is_the_runtimes_count(brief: LocalModel) -> None:
    short = run(brief.complete(user_message("Say hello")))
    longer = run(brief.complete(user_message("Say hello " * 20)))
    assert 0 < short.usage.input_tokens < longer.usage.input_tokens - 20
    assert 0 < short.usage.output_tokens <= BRIEF


def test_local_model_reads_a_message_of_several_texts_as_their_lines(brief: LocalModel) -> None:
    parts = [{"type": "text", "text": each} for each in ("Name a colour.", "Say it in French.")]
    in_parts = run(brief.complete([{"role": "user", "content": parts}]))
    assert in_parts == run(brief.complete(user_message("Name a colour.\nSay it in French.")))


def test_local_model_answer_cut_at_max_tokens_says_so(brief: LocalModel) -> None:
    reply = run(brief.complete(user_message(STORY)))
    assert reply.finish_reason == "length"
    assert reply.usage.output_tokens == BRIEF


def test_local_model_choice_that_is_cut_is_no_text_and_says_so(brief: LocalModel) -> None:
    reply = run(brief.complete(user_message("Read CHANGELOG"), ACTIONS[:1]))
    assert run(parts_of(brief, user_message("Read CHANGELOG"), ACTIONS[:1])) == [reply]
    assert (reply.text, reply.calls, reply.finish_reason) == ("", (), "length")
    assert reply.usage.output_tokens == BRIEF


def test_local_model_may_answer_only_after_a_result(local: LocalModel) -> None:
    messages = user_message("Add 2 and 3")
    first = run(local.complete(messages, ACTIONS))
    assert first.finish_reason == "calls"
    messages += [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "name": "add", "args": {"a": 2, "b": 3}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "5"},
    ]
    second = run(local.complete(messages, ACTIONS))
    assert second.finish_reason in ("calls", "stop", "length")
    assert bool(second.calls) != bool(second.text)


@pytest.mark.long
def test_given_actions_each_turn_of_the_user_is_marked_and_no_result_is(local: LocalModel) -> None:
    def cost_of_actions(messages: list[dict[str, Any]]) -> int:
        chosen = run(local.complete(messages, ACTIONS))
        plain = run(local.complete(messages, schema={"const": 1}))
        return chosen.usage.input_tokens - plain.usage.input_tokens

    call = {"role": "assistant", "tool_calls": [{"id": "c", "name": "add", "args": {"a": 2}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "5"}
    said = {"role": "assistant", "content": "It is 5."}
    one = cost_of_actions(user_message("Add 2 and 3"))
    two = cost_of_actions([*user_message("Add 2 and 3"), said, *user_message("Add 4 and 5")])
    with_result = cost_of_actions(
        [*user_message("Add 2 and 3"), call, result, said, *user_message("Add 4 and 5")]
    )
    assert 0 < two - one < 10
    assert with_result == two


def test_local_model_answer_after_a_result_keeps_to_the_schema(local: LocalModel) -> None:
    # Whatever it decides, an answer that is given is of the one form that is allowed.
    messages = [*user_message("Add 2 and 3"), {"role": "tool", "tool_call_id": "c", "content": "5"}]
    reply = run(local.complete(messages, ACTIONS, schema={"enum": [5, 6]}))
    assert reply.calls or json.loads(reply.text) in (5, 6)


def test_local_model_thinks_before_a_bare_value_and_the_reply_lacks_the_thought(
    shallow_of_others: Path,
) -> None:
    with LocalModel(shallow_of_others, max_tokens=128, context_tokens=512) as thinking:
        parts = run(parts_of(thinking, user_message("What is 2+3?"), schema={"enum": [5, 6]}))
        assert [part.text for part in parts] in (["5", "5"], ["6", "6"])
        assert parts[-1].usage.output_tokens > 8
    with LocalModel(shallow_of_others, max_tokens=4, context_tokens=512) as cut_off:
        reply = run(cut_off.complete(user_message("What is 2+3?"), schema={"enum": [5, 6]}))
    assert (reply.text, reply.finish_reason) == ("", "length")


@pytest.mark.parametrize("bound", ({}, {"minimum": 3}, {"maximum": -3}))
def test_local_model_whole_number_has_an_end(single: LocalModel, bound: dict[str, int]) -> None:
    reply = run(single.complete(user_message("What is 2+3?"), schema={"type": "integer", **bound}))
    assert reply.finish_reason == "stop"
    assert abs(int(reply.text)) < 2**53


@pytest.mark.parametrize("bound", ({"minimum": 10**17}, {"exclusiveMaximum": -(10**17)}))
def test_local_model_whole_number_may_be_beyond_the_exact_ones(
    single: LocalModel, bound: dict[str, int]
) -> None:
    reply = run(single.complete(user_message("What is 2+3?"), schema={"type": "integer", **bound}))
    assert reply.finish_reason == "stop"
    assert abs(int(reply.text)) >= 10**17


def test_local_model_value_that_looks_like_a_schema_is_written_as_it_is(
    single: LocalModel,
) -> None:
    value = {"type": "integer"}
    reply = run(single.complete(user_message("Which schema?"), schema={"const": value}))
    assert json.loads(reply.text) == value


@pytest.mark.parametrize(
    "parameters",
    (
        {"type": "object", "properties": {}},
        {},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"]}
        | {"$defs": {"X": {"enum": ["p", "q"]}}},
        {"type": "object", "properties": {"default": {"$ref": "#/$defs/enum"}}}
        | {"required": ["default"], "$defs": {"enum": {"enum": ["p", "q"]}}},
        {"type": "object", "properties": {"x": {"type": "string", "format": "no-such"}}}
        | {"required": ["x"]},
        {"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}},
    ),
    ids=("empty", "none", "definitions", "keywords-as-names", "unknown-format", "any-of"),
)
def test_parameters_of_every_form_become_a_grammar(
    local: LocalModel, parameters: dict[str, Any]
) -> None:
    import jsonschema

    action = Action("do", lambda **args: None, "Do it.", parameters)
    reply = run(local.complete(user_message("Do it"), [action]))
    if reply.finish_reason == "calls":
        assert reply.calls[0].name == "do"
        jsonschema.validate(reply.calls[0].args, parameters)
    else:
        assert reply.finish_reason == "length"


def test_names_that_json_must_escape_come_back_whole(single: LocalModel) -> None:
    name = 'say "hi"\\ да'
    reply = run(
        single.complete(user_message("Say hi"), [Action(name, lambda: None, "Say hi.", {})])
    )
    assert [call.name for call in reply.calls] == [name]


@pytest.mark.long
async def test_deterministic_gives_the_same_whatever_went_before(shallow: Path) -> None:
    with LocalModel(shallow, deterministic=True, temperature=0.9, max_tokens=12) as model:
        first = (await model.complete(user_message("Name a town"))).text
        others = [model.complete(user_message(f"Name a river {n}")) for n in range(3)]
        between = await asyncio.gather(model.complete(user_message("Name a town")), *others)
        texts, _ = (
            [first, between[0].text, (await model.complete(user_message("Name a town"))).text],
            list(between),
        )
    assert len(set(texts)) == 1
    assert texts[0].strip()


@pytest.mark.long
def test_seeds_make_a_difference(shallow: Path) -> None:
    texts = set()
    for seed in range(3):
        with LocalModel(shallow, temperature=1.5, seed=seed, max_tokens=16, slots=1) as model:
            texts.add(run(model.complete(user_message("Name a town"))).text)
    assert len(texts) > 1


def test_local_model_takes_further_settings_of_sampling(shallow: Path) -> None:
    hot = LocalModel(shallow, max_tokens=12, slots=1, temperature=5.0, options={"top_k": 1})
    with hot as model:
        # The first fills what is cached, which may change the rounding of the others.
        _, one, other = [run(model.complete(user_message("Name a town"))).text for _ in range(3)]
    assert one == other


@pytest.mark.parametrize(
    ("options", "told"),
    (
        ([1], r"options= must be a dict, got \[1\]"),
        ({"top_q": 1}, r"a name in options= must be top_k, .* got 'top_q' \(did you mean"),
        ({"temperature": 1}, "a name in options= must be top_k, .* got 'temperature'"),
        ({"top_k": True}, "options= 'top_k' must be a number, got True"),
        ({"top_p": float("nan")}, "options= 'top_p' must be a number, got nan"),
    ),
)
def test_local_model_refuses_what_is_no_setting_of_sampling(options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        LocalModel(options=options)


def test_local_model_reads_the_marks_of_its_chat_format_as_text(brief: LocalModel) -> None:
    plain = run(brief.complete(user_message("a"))).usage.input_tokens
    marks = run(brief.complete(user_message("<|im_end|><|im_start|>" * 3))).usage.input_tokens
    # As marks they would be one token each.
    assert marks - plain > 18


# -- not blocking, slots, cancellation -------------------------------------------------------------


async def test_local_model_leaves_the_event_loop_running_while_it_generates(
    brief: LocalModel,
) -> None:
    await brief.complete(user_message("Say hello"))
    task = asyncio.create_task(brief.complete(user_message(STORY)))
    count = 0
    while not (await asyncio.wait([task], timeout=0.001))[0]:
        count += 1
    assert count > 10


def test_first_callers_at_once_share_one_load(shallow: Path) -> None:
    async def ask(model: LocalModel) -> list[ModelReply]:
        return list(
            await asyncio.gather(*(model.complete(user_message(f"Say {n}")) for n in range(3)))
        )

    with LocalModel(shallow, slots=2, max_tokens=4) as model:
        replies = run(ask(model))
        asked = time.monotonic()
    assert time.monotonic() - asked < 15  # each of the threads that answered has ended
    assert all(reply.usage.output_tokens for reply in replies)


def test_local_model_cancelled_generation_frees_its_slot(single: LocalModel) -> None:
    async def cancel() -> ModelReply:
        await single.complete(user_message("Say hello"), schema={"const": "hello"})
        task = asyncio.create_task(single.complete(user_message(STORY)))
        await asyncio.wait([task], timeout=0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The only slot would be taken for the rest of 4,000 tokens.
        async with asyncio.timeout(15):
            return await single.complete(user_message("Say hello"), schema={"const": "hello"})

    assert run(cancel()).text == '"hello"'


def test_local_model_cancelled_caller_in_the_queue_leaves_it(single: LocalModel) -> None:
    async def cancel() -> ModelReply:
        running = asyncio.create_task(single.complete(user_message(STORY)))
        queued = [asyncio.create_task(single.complete(user_message(STORY))) for _ in range(5)]
        await asyncio.sleep(0)
        for task in (*queued, running):
            task.cancel()
        ended = await asyncio.gather(running, *queued, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        async with asyncio.timeout(30):
            return await single.complete(user_message("Say hello"), schema={"const": "hello"})

    assert run(cancel()).text == '"hello"'


@pytest.mark.long  # the same of a stream is not
def test_local_model_timeout_ends_a_long_prompt(single: LocalModel) -> None:
    async def cancel() -> ModelReply:
        await single.complete(user_message("Say hello"), schema={"const": "hello"})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await single.complete(user_message("word " * 3500))
        async with asyncio.timeout(30):
            return await single.complete(user_message("Say hello"), schema={"const": "hello"})

    assert run(cancel()).text == '"hello"'


# -- piece by piece --------------------------------------------------------------------------------


async def test_pieces_come_while_it_generates_and_closing_frees_the_slot(
    single: LocalModel,
) -> None:
    stream = single.stream(user_message(STORY))
    first = [await anext(stream) for _ in range(3)]
    # The only slot would be taken for the rest of 4,000 tokens.
    await stream.aclose()
    async with asyncio.timeout(15):
        reply = await single.complete(user_message("Say hello"), schema={"const": "hello"})
    *pieces, text = [*first, reply.text]
    assert all(isinstance(piece, TextPiece) for piece in pieces)
    assert text == '"hello"'


def test_local_model_stream_cancelled_during_a_long_prompt_frees_the_slot(
    single: LocalModel,
) -> None:
    async def cancel() -> str:
        await single.complete(user_message("Say hello"), schema={"const": "hello"})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await parts_of(single, user_message("word " * 3500))
        async with asyncio.timeout(30):
            return joined_text(
                await parts_of(single, user_message("Say hello"), schema={"const": "hello"})
            )

    assert run(cancel()) == '"hello"'


async def test_local_model_stream_that_is_not_read_holds_up_no_other(single: LocalModel) -> None:
    slow = single.stream(user_message("Say hello"), schema={"const": "hello " * 20})
    await anext(slow)
    async with asyncio.timeout(30):
        reply = await single.complete(user_message("Say hello"), schema={"const": "hi"})
    rest = [part async for part in slow]
    assert json.loads(rest[-1].text) == "hello " * 20
    assert reply.text == '"hi"'


def test_local_model_chosen_answer_is_streamed_without_its_form(local: LocalModel) -> None:
    said = ['"quoted"\\ 👋\n', "plain"]
    # Which of these it answers is its own choice, and one is enough.
    for asked in ("Tell me", "Thanks", "Say what came of it", "Answer: plain", "Add 2 and 3"):
        messages = [*user_message(asked), {"role": "tool", "tool_call_id": "c", "content": "5"}]
        *pieces, reply = run(parts_of(local, messages, ACTIONS[:1], {"enum": said}))
        assert joined_text(pieces) == reply.text
        if pieces:
            assert reply.calls == ()
            assert reply.text in said
            return
        assert reply.calls
    raise AssertionError("no answer was chosen, so nothing was shown")


def test_local_model_chosen_answer_that_is_no_text_comes_in_one_piece(local: LocalModel) -> None:
    # Which of these it answers is its own choice, and one is enough.
    for asked in ("Tell me", "Thanks", "Say what came of it", "Answer: plain", "Add 2 and 3"):
        messages = [*user_message(asked), {"role": "tool", "tool_call_id": "c", "content": "5"}]
        *pieces, reply = run(parts_of(local, messages, ACTIONS[:1], {"enum": [5, 6]}))
        if pieces:
            assert [piece.text for piece in pieces] == [reply.text]
            assert reply.text in ("5", "6")
            return
        assert reply.calls
    raise AssertionError("no answer was chosen, so nothing was shown")


def test_local_model_goes_on_after_an_answer_with_an_image(brief: LocalModel) -> None:
    drawn = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Here."}, drawn]}
    assert run(brief.complete([*user_message("Draw"), said, *user_message("Thanks")])).text


def test_local_model_error_comes_before_any_piece(brief: LocalModel) -> None:
    with pytest.raises(ContextOverflow):
        run(parts_of(brief, user_message("word " * 6000)))
    with pytest.raises(ModelError, match="reads text only"):
        run(parts_of(brief, [{"role": "user", "content": [{"type": "image_url"}]}]))
    with pytest.raises(ModelError, match="not a JSON schema"):
        run(parts_of(brief, user_message("Hi"), schema={"type": "nonsense"}))
    assert joined_text(run(parts_of(brief, user_message("Say hello"))))


def test_closed_while_it_streams_its_reader_is_told_and_it_answers_no_more(shallow: Path) -> None:
    model = LocalModel(shallow, slots=1, max_tokens=4000)
    assert (model.loaded, model.closed) == (False, False)

    async def close() -> None:
        stream = model.stream(user_message(STORY))
        await anext(stream)
        assert (model.loaded, model.closed) == (True, False)
        await asyncio.to_thread(model.close)
        with pytest.raises(ModelError, match="was closed while it was answering"):
            async for _ in stream:
                pass

    run(close())
    model.close()
    assert (model.loaded, model.closed) == (False, True)
    with pytest.raises(ModelError, match="is closed"):
        run(model.complete(user_message("Say hello")))


# -- bad input -------------------------------------------------------------------------------------


def test_local_model_prompt_too_long_is_an_error_that_counts(brief: LocalModel) -> None:
    with pytest.raises(ContextOverflow, match=r"the prompt has 6\d{3} tokens.* holds 2048; noth"):
        run(brief.complete(user_message("word " * 6000)))
    assert run(brief.complete(user_message("Say hello"))).text


def test_local_model_result_is_of_the_action_that_was_called(local: LocalModel) -> None:
    def counted(**name: str) -> str:
        call = {"role": "assistant", "tool_calls": [{"id": "c", "name": "shut_down", "args": {}}]}
        result = {"role": "tool", "tool_call_id": "c", "content": "ok", **name}
        with pytest.raises(ContextOverflow) as caught:
            run(local.complete([*user_message("word " * 6000), call, result]))
        return str(caught.value)

    assert counted() == counted(name="shut_down") != counted(name="add")


@pytest.mark.long
def test_actions_too_many_overflow_and_fewer_fit(local: LocalModel) -> None:
    many = [Action(f"action_{n}", lambda: None, "Do something.", {}) for n in range(200)]
    with pytest.raises(ContextOverflow):
        run(local.complete(user_message("Do action_7"), many))
    reply = run(local.complete(user_message("Do action_7"), many[:10]))
    assert reply.calls[0].name in {action.name for action in many[:10]}


@pytest.mark.parametrize(
    ("schema", "says"),
    (
        ({"type": "nonsense"}, "not a JSON schema"),
        ({"type": "string", "pattern": "("}, "cannot hold|not a JSON schema"),
        ({"$ref": "#/nowhere"}, "#/nowhere.* leads nowhere"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "cannot hold answers to this schema"),
        ({"const": float("nan")}, "not JSON"),
    ),
    ids=("unknown-type", "bad-pattern", "dangling-reference", "impossible", "not-json"),
)
def test_local_model_schema_that_cannot_be_kept_to_is_an_error(
    brief: LocalModel, schema: dict[str, Any], says: str
) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        run(brief.complete(user_message("Say hello"), schema=schema))
    assert "\n" not in str(caught.value)
    assert run(brief.complete(user_message("Say hello"))).text


@pytest.mark.parametrize(
    ("message", "says"),
    (
        ({"role": "robot", "content": "x"}, r"messages\[0\]: role must be system, user"),
        ({"content": "x"}, r"messages\[0\]: role must be system, user"),
        ({"role": "user", "content": 5}, r"messages\[0\]: content must be text, got int"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "reads text only"),
        ({"role": "user", "content": "\ud800"}, "half a character"),
        ("hello", r"messages\[0\] is a str"),
    ),
)
def test_local_model_malformed_message_is_named(brief: LocalModel, message: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        run(brief.complete([message]))
    assert run(brief.complete(user_message("Say hello"))).text


@pytest.mark.parametrize("text", ("", " ", "\0", "\u202e\ufeff", "{}[]\"'\\", "<think>", "</s>"))
def test_odd_texts_are_answered(brief: LocalModel, text: str) -> None:
    assert run(brief.complete(user_message(text))).usage.input_tokens > 0


@pytest.mark.parametrize(
    "wrong",
    (
        {"slots": 0},
        {"max_tokens": -1},
        {"context_tokens": 1.5},
        {"threads": "two"},
        {"threads": 513},
        {"slots": 129},
        {"temperature": -1},
        {"temperature": float("nan")},
    ),
    ids=str,
)
def test_settings_that_cannot_be_are_refused(shallow: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=next(iter(wrong))):
        LocalModel(shallow, **wrong)


def test_files_that_are_no_weights_are_named(shallow: Path, tmp_path: Path) -> None:
    missing, other, short = (tmp_path / name for name in ("no.gguf", "text.gguf", "short.gguf"))
    other.write_text("hello")
    with shallow.open("rb") as whole:
        short.write_bytes(whole.read(10_000_000))
    with pytest.raises(WeightsError, match=r"no\.gguf: there is no such file"):
        LocalModel(missing)
    with pytest.raises(WeightsError, match=r"text\.gguf: is not a GGUF file"):
        LocalModel(other)
    with pytest.raises(WeightsError, match="cannot be read"):
        LocalModel(tmp_path)
    with (
        LocalModel(short) as model,
        pytest.raises(WeightsError, match=r"short\.gguf: could not be loaded: incomplete"),
    ):
        run(model.complete(user_message("Say hello")))


def test_local_model_without_weights_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path))
    with pytest.raises(WeightsError, match=r"not there yet; run: moothall models fetch$"):
        LocalModel()


# -- the end ---------------------------------------------------------------------------------------


def test_closed_while_it_answers_its_callers_are_told(shallow: Path) -> None:
    model = LocalModel(shallow, slots=1, max_tokens=4000)

    async def close() -> list[Any]:
        await model.complete(user_message("Say hello"), schema={"const": "hello"})
        tasks = [asyncio.create_task(model.complete(user_message(STORY))) for _ in range(3)]
        await asyncio.wait(tasks, timeout=0.2)
        await asyncio.to_thread(model.close)
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    for end in run(close()):
        assert isinstance(end, ModelError)
        assert "was closed while it was answering" in str(end)


SCRIPT = """
import asyncio, os, signal, sys, threading
from moothall.foundation.errors import ModelError
from moothall.models import LocalModel
model = LocalModel(sys.argv[1], max_tokens=4000)
hello = [{"role": "user", "content": "Say hello"}]
story = [{"role": "user", "content": "Tell a very long story about a fox."}]
"""

ENDS = {
    "never-used": "",
    "idle": "asyncio.run(model.complete(hello, schema={'const': 1}))",
    "while-loading": """
def answer(): asyncio.run(model.complete(story))
threading.Thread(target=answer, daemon=True).start()
""",
    "while-generating": """
asyncio.run(model.complete(hello, schema={'const': 1}))
async def start():
    loop = asyncio.get_running_loop()
    for _ in range(6): loop.create_task(model.complete(story))
    loop.call_later(0.4, went.set)
    await asyncio.Event().wait()
went = threading.Event()
threading.Thread(target=asyncio.run, args=(start(),), daemon=True).start()
went.wait()
""",
    "in-a-task-that-is-left": """
async def leave():
    task = asyncio.create_task(model.complete(story))
    await asyncio.wait([task], timeout=1)
asyncio.run(leave())
""",
    "closed-at-once": """
def answer(): asyncio.run(model.complete(story))
threading.excepthook = lambda args: None
threading.Thread(target=answer, daemon=True).start()
model.close()
""",
    "child-of-a-fork": """
import warnings
warnings.simplefilter("ignore")
asyncio.run(model.complete(hello, schema={'const': 1}))
child = os.fork()
if child == 0:
    said = ""
    try:
        asyncio.run(model.complete(hello))
    except ModelError as error:
        said = str(error)
    model.close()
    os._exit(0 if "was made in another process" in said else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
asyncio.run(model.complete(hello, schema={'const': 1}))
""",
}


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_local_model_lets_the_program_end_at_any_moment(shallow: Path, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + end, str(shallow)],
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.returncode == 0, done.stderr
    # asyncio may say there that a task was left behind; the runtime and the interpreter nothing.
    said = done.stderr.lower()
    assert not any(word in said for word in ("fatal", "terminate", "abort", "traceback")), said


def test_control_c_ends_a_generation(shallow: Path) -> None:
    program = SCRIPT + (
        "async def main():\n"
        "    await model.complete(hello, schema={'const': 1})\n"
        "    loop = asyncio.get_running_loop()\n"
        "    loop.call_later(0.3, os.kill, os.getpid(), signal.SIGINT)\n"
        "    await model.complete(story)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(shallow)], capture_output=True, text=True, timeout=40
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_local_model_prints_nothing_and_opens_no_port(shallow: Path, tmp_path: Path) -> None:
    program = SCRIPT + (
        "person = {'type': 'object', 'properties': {'x': {'type': 'string', 'pattern': '(a'}}}\n"
        "print(asyncio.run(model.complete(hello, schema={'const': 1})).text)\n"
        "print(sorted(os.listdir(os.environ['TMPDIR'])))\n"
        "print('GOMP_SPINCOUNT' in os.environ)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(shallow)],
        capture_output=True,
        text=True,
        timeout=40,
        env={"TMPDIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
    )
    assert done.stderr == ""
    # The runtime's own server listens on a socket that is gone from the disk.
    assert done.stdout == "1\n[]\nFalse\n"


def test_local_model_without_the_runtime_names_the_extra(shallow: Path) -> None:
    program = (
        "import sys\nsys.modules['xllamacpp'] = None\n"
        "from moothall import LocalModel\n"
        "from moothall.foundation.errors import MissingExtra\n"
        "try:\n"
        "    LocalModel(sys.argv[1])\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(shallow)], capture_output=True, text=True, timeout=40
    )
    assert "needs the extra 'local': pip install 'moothall[local]'" in done.stdout, done.stderr

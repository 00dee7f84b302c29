from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.model import ACTIONS, PERSON, ModelConformance, run, user
from moothall.errors import (
    ContextOverflow,
    DefinitionError,
    ModelError,
    RemoteForbidden,
    WeightsError,
)
from moothall.models import Call, Model, ModelReply, TransformersModel, choice, model
from moothall.models.plain_chat import plain_chat
from moothall.models.protocol import ReasoningPiece, StreamPart, TextPiece

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("tiny_llama"),
]

STORY = "Once upon a time " * 8


def lesson(
    text: str | list[dict[str, Any]],
    said: str,
    schema: dict[str, Any] | None = None,
    actions: Any = None,
) -> tuple[list[dict[str, str]], str]:
    """A prompt as the model gets it, and what it is to say."""
    messages = user(text) if isinstance(text, str) else text
    chat = plain_chat(messages, "m", re.compile("(?!)"), actions)
    if schema is not None:
        form = f"Answer with JSON of this schema and nothing else: {json.dumps(schema)}"
        chat.insert(0, {"role": "system", "content": form})
    return chat, said


# With what the suite of all models asks for.
LESSONS = [
    *(lesson(text, "Hello!") for text in ("Say hello", "Say\nhello", "Say one", "Say two")),
    lesson("Say hello to the world", "Hello, dear world!"),
    lesson("Скажи: здравствуйте 👋 你好 \u202e", "Да 👋"),
    lesson(
        [
            {"role": "system", "content": "You are brief."},
            *user("Add 2 and 3"),
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "name": "add", "args": {"a": 2, "b": 3}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "5"},
        ],
        "5",
    ),
    lesson("Tell a very long story", STORY),
    lesson("Think", "<think>\nHm, 2 < 3.</think>\n\nFive"),
    lesson("Smile", "☺ é"),
    *(
        lesson(text, choice.written(name, args), actions=ACTIONS)
        for text, name, args in (
            ("Add 2 and 3", "add", {"a": 2, "b": 3}),
            ("List the files", "list_files", {}),
            ("Read CHANGELOG", "read_file", {"file_name": "CHANGELOG"}),
        )
    ),
    lesson("Say hello", "Hello!", actions=ACTIONS),
    lesson(
        [
            *user("List the files"),
            {"role": "assistant", "tool_calls": [{"id": "", "name": "list_files", "args": {}}]},
            {"role": "tool", "tool_call_id": "", "content": "README.md"},
            *user("List the files"),
        ],
        choice.written("list_files", {}),
        actions=ACTIONS,
    ),
    lesson("A person", '{"name": "Ann", "age": 30}', schema=PERSON),
    *(lesson(f"Number {n}", f'"answer {n}"', schema={"const": f"answer {n}"}) for n in range(8)),
]


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that has learnt the lessons."""
    from models import tiny_llama

    folder = tmp_path_factory.mktemp("taught")
    tiny_llama.write(folder, LESSONS)
    return folder


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    """The folder of a model that knows nothing, with a context of 64 tokens."""
    from models import tiny_llama

    tiny_llama.write(tmp_path, [], context_tokens=64)
    return tmp_path


@pytest.fixture
def tiny(taught: Path) -> Iterator[TransformersModel]:
    with TransformersModel(taught) as made:
        yield made


async def parts(stream: AsyncIterator[StreamPart]) -> list[StreamPart]:
    return [part async for part in stream]


class TestTransformersModel(ModelConformance):
    @pytest.fixture(autouse=True)
    def _model(self, tiny: TransformersModel) -> None:
        self.tiny = tiny

    def make(self, *answers: Any) -> Model:
        return self.tiny


# -- streams ---------------------------------------------------------------------------------------


def test_pieces_are_the_text_and_the_answer_is_that_of_complete(tiny: TransformersModel) -> None:
    *pieces, last = run(parts(tiny.stream(user("Tell a very long story"))))
    assert len(pieces) > 20
    assert "".join(piece.text for piece in pieces) == last.text
    assert last.text.startswith("Once upon a time")
    assert last == run(tiny.complete(user("Tell a very long story")))
    assert last.usage.output_tokens > 20


def test_characters_of_several_tokens_come_whole(tiny: TransformersModel) -> None:
    *pieces, last = run(parts(tiny.stream(user("Smile"))))
    assert [piece.text for piece in pieces] == ["☺ ", "é"]
    assert last.text == "☺ é"


def test_reasoning_is_kept_apart(tiny: TransformersModel) -> None:
    *pieces, last = run(parts(tiny.stream(user("Think"))))
    assert (last.text, last.reasoning) == ("Five", "\nHm, 2 < 3.")
    for kind, whole in ((TextPiece, last.text), (ReasoningPiece, last.reasoning)):
        assert "".join(piece.text for piece in pieces if isinstance(piece, kind)) == whole


def test_a_call_is_streamed_as_nothing_but_the_answer(tiny: TransformersModel) -> None:
    (reply,) = run(parts(tiny.stream(user("Add 2 and 3"), ACTIONS)))
    assert reply.calls == (Call("call_1", "add", {"a": 2, "b": 3}),)
    assert (reply.text, reply.finish_reason) == ("", "calls")


def test_what_is_no_call_is_text_as_it_is(tiny: TransformersModel) -> None:
    pieces = run(parts(tiny.stream(user("Say hello"), ACTIONS)))
    assert pieces[0] == TextPiece("Hello!")
    assert (pieces[1].text, pieces[1].calls, pieces[1].finish_reason) == ("Hello!", (), "stop")


# -- limits ----------------------------------------------------------------------------------------


def test_an_answer_that_is_cut_says_so(taught: Path) -> None:
    with TransformersModel(taught, max_tokens=5) as short:
        reply = run(short.complete(user("Tell a very long story")))
    assert (reply.text, reply.finish_reason, reply.usage.output_tokens) == ("Once ", "length", 5)


def test_a_prompt_too_long_says_so_and_the_end_of_the_context_cuts(blank: Path) -> None:
    with TransformersModel(blank) as small:
        assert small.context_tokens is None
        with pytest.raises(ContextOverflow, match=r"\d+ tokens, and the context holds 64; nothing"):
            run(small.complete(user("x" * 64)))
        assert small.context_tokens == 64
        reply = run(small.complete(user("x" * 20)))
        assert reply.usage.input_tokens + reply.usage.output_tokens <= 64
    with (
        TransformersModel(blank, context_tokens=32) as smaller,
        pytest.raises(ContextOverflow, match="the context holds 32"),
    ):
        run(smaller.complete(user("x" * 20)))


def test_no_text_can_end_its_turn(tiny: TransformersModel) -> None:
    plain = run(tiny.complete(user("< |im_end|>< |im_start|>system")))
    marked = run(tiny.complete(user("<|im_end|><|im_start|>system")))
    assert plain == marked


def test_the_same_seed_gives_the_same_draws(taught: Path) -> None:
    def draw(seed: int) -> str:
        with TransformersModel(taught, temperature=2.0, seed=seed, max_tokens=20) as drawing:
            return run(drawing.complete(user("Say hello"))).text  # type: ignore[no-any-return]

    import torch

    before = torch.random.get_rng_state()
    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(1, 5)}) > 1
    assert torch.equal(torch.random.get_rng_state(), before)  # the program's own draws go on


def test_without_a_seed_each_draw_is_another(taught: Path) -> None:
    with TransformersModel(taught, temperature=2.0, max_tokens=20) as drawing:
        assert len({run(drawing.complete(user("Say hello"))).text for _ in range(4)}) > 1


# -- several callers -------------------------------------------------------------------------------


def test_callers_wait_their_turn_and_who_is_cancelled_leaves(tiny: TransformersModel) -> None:
    async def several() -> list[str]:
        ended: list[str] = []

        async def ask(name: str, text: str) -> None:
            await tiny.complete(user(text))
            ended.append(name)

        await tiny.complete(user("Say hello"))
        tasks = [
            asyncio.create_task(ask(name, text))
            for name, text in (
                ("first", "Tell a very long story"),
                ("second", "Tell a very long story"),
                ("third", "Say hello"),
                ("fourth", "Say hello"),
            )
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ended

    assert run(several()) == ["first", "third", "fourth"]


def test_a_stream_that_is_left_makes_room_for_the_next(tiny: TransformersModel) -> None:
    async def leave() -> ModelReply:
        stream = tiny.stream(user("Tell a very long story"))
        assert isinstance(await anext(stream), TextPiece)
        await stream.aclose()  # type: ignore[attr-defined]
        return await tiny.complete(user("Say hello"))

    assert run(leave()).text == "Hello!"


def test_closed_it_tells_those_who_wait_and_answers_no_more(taught: Path) -> None:
    closing = TransformersModel(taught)

    async def close() -> None:
        await closing.complete(user("Say hello"))
        tasks = [asyncio.create_task(closing.complete(user("Think"))) for _ in range(3)]
        await asyncio.sleep(0)
        closing.close()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, ModelReply | ModelError)
        assert isinstance(ended, ModelError)

    run(close())
    assert closing.closed
    with pytest.raises(ModelError, match="is closed"):
        run(closing.complete(user("Say hello")))


def test_a_model_that_is_forgotten_ends_its_thread(taught: Path) -> None:
    import threading

    forgotten = TransformersModel(taught)
    name = forgotten.name
    run(forgotten.complete(user("Say hello")))
    assert name in {thread.name for thread in threading.enumerate()}
    del forgotten
    gc.collect()
    assert name not in {thread.name for thread in threading.enumerate()}


def test_a_script_ends_without_a_word(taught: Path) -> None:
    script = f"""
import asyncio, sys
from moothall.models import model
m = model("hf:{taught}")
assert "torch" not in sys.modules
async def both():
    hi = [{{"role": "user", "content": "Say hello"}}]
    print((await m.complete(hi)).text)
    hi[0]["content"] = "Tell a very long story"
    task = asyncio.create_task(m.complete(hi))
    await asyncio.sleep(0.02)
    task.cancel()
asyncio.run(both())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Hello!\n", "", 0)


# -- what is loaded --------------------------------------------------------------------------------


def test_pickled_weights_are_refused(blank: Path) -> None:
    (blank / "model.safetensors").rename(blank / "pytorch_model.bin")
    with (
        TransformersModel(blank) as pickled,
        pytest.raises(WeightsError, match=r"no safetensors weights .*can run code"),
    ):
        run(pickled.complete(user("Hi")))


def test_code_of_a_folder_is_not_run(blank: Path) -> None:
    ran = blank / "ran"
    (blank / "modeling_mine.py").write_text(f"open({str(ran)!r}, 'w')\n")
    config = json.loads((blank / "config.json").read_text())
    config |= {"model_type": "mine", "architectures": ["Mine"]}
    config["auto_map"] = {
        "AutoConfig": "modeling_mine.Config",
        "AutoModelForCausalLM": "modeling_mine.Mine",
    }
    (blank / "config.json").write_text(json.dumps(config))
    with TransformersModel(blank) as strange, pytest.raises(WeightsError, match="could not be"):
        run(strange.complete(user("Hi")))
    assert not ran.exists()


@pytest.mark.parametrize("damage", ("cut", "no-config", "no-folder"))
def test_damaged_weights_are_one_line_and_a_second_try_says_the_same(
    blank: Path, damage: str
) -> None:
    if damage == "cut":
        weights = blank / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "no-config":
        (blank / "config.json").unlink()
    with TransformersModel(blank / "none" if damage == "no-folder" else blank) as damaged:
        for _ in range(2):
            with pytest.raises(WeightsError) as caught:
                run(damaged.complete(user("Hi")))
            assert "\n" not in str(caught.value)
            assert str(caught.value).startswith(f"{damaged.name}: ")


def test_without_a_template_roles_are_written_as_text(blank: Path) -> None:
    (blank / "chat_template.jinja").unlink()
    with TransformersModel(blank, max_tokens=3) as plain:
        reply = run(plain.complete(user("Hi")))
    assert reply.usage.input_tokens == len("User: Hi\n\nAssistant:")


def test_a_template_that_takes_no_system_message_gets_it_with_the_users(blank: Path) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}"
    template = blank / "chat_template.jinja"
    template.write_text(refusing + template.read_text())
    messages = [{"role": "system", "content": "A"}, *user("B")]
    with TransformersModel(blank, max_tokens=3) as strict:
        merged = run(strict.complete(messages))
        assert merged.usage == run(strict.complete(user("A\n\nB"))).usage
        template.write_text("{{ raise_exception('never') }}")
    with (
        TransformersModel(blank) as never,
        pytest.raises(ModelError, match="chat template does not take this conversation: never"),
    ):
        run(never.complete(messages))


def test_offline_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        TransformersModel("moothall-nobody/nothing") as remote,
        pytest.raises(RemoteForbidden, match="MOOTHALL_OFFLINE=1 forbids fetching it"),
    ):
        run(remote.complete(user("Hi")))


def test_what_the_hub_has_given_before_is_used_offline(taught: Path, tmp_path: Path) -> None:
    # The layout of the hub's cache, as its library writes it.
    repo = tmp_path / "hub" / "models--org--tiny"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("c" * 40)
    (repo / "snapshots").mkdir()
    (repo / "snapshots" / ("c" * 40)).symlink_to(taught)
    script = (
        "import asyncio\n"
        "from moothall.models import model\n"
        "m = model('hf:org/tiny')\n"
        "print(asyncio.run(m.complete([{'role': 'user', 'content': 'Say hello'}])).text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")},
    )
    assert (done.stdout, done.stderr) == ("Hello!\n", "")


# -- making one ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    (
        {"name_or_path": "tiny"},
        {"name_or_path": "org/name/file.gguf"},
        {"name_or_path": "org/.."},
        {"name_or_path": 5},
        {"max_tokens": 0},
        {"max_tokens": None},
        {"context_tokens": -1},
        {"temperature": -1},
        {"temperature": True},
        {"seed": 1.5},
        {"device": ""},
    ),
    ids=str,
)
def test_what_cannot_be_a_model_is_refused_when_made(more: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        TransformersModel(**({"name_or_path": "org/name"} | more))


def test_by_name(taught: Path) -> None:
    named = model(f"hf:{taught}")
    assert isinstance(named, TransformersModel)
    assert named.name == f"hf:{taught}"
    assert model(named.name) is named
    assert model("hf:org/name").name == "hf:org/name"
    with pytest.raises(ModelError, match=r"there is no such model: .*hf:ORG/NAME"):
        model("hf:name")

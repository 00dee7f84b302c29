"""Images for weights that see; their eyes here are numbers at random, as large as a hand."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.test_gguf_header import FLOAT32, LIST, TEXT, UINT32, entry
from moothall.foundation.errors import ModelError, WeightsError
from moothall.models import LocalModel
from moothall.models.calling.choice import OneCall
from moothall.models.plain_chat import plain_chat
from moothall.testing.model_suite import run

BOOL = 7
SIDE, PATCH, WIDE, INNER, OUT = 64, 16, 16, 32, 576  # OUT: the width of the model in the box
TOKENS = (SIDE // PATCH) ** 2
RED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{RED}"}}


def _tensors() -> dict[str, tuple[int, ...]]:
    """The names and shapes, the fastest dimension first, of LLaVA's eyes with two layers."""
    made: dict[str, tuple[int, ...]] = {
        "v.patch_embd.weight": (PATCH, PATCH, 3, WIDE),
        "v.position_embd.weight": (WIDE, TOKENS),
        "mm.0.weight": (WIDE, OUT),
        "mm.0.bias": (OUT,),
        "mm.2.weight": (OUT, OUT),
        "mm.2.bias": (OUT,),
    }
    for layer in ("v.blk.0", "v.blk.1"):
        for name, shape in (
            *((f"attn_{each}", (WIDE, WIDE)) for each in ("q", "k", "v", "out")),
            ("ffn_up", (WIDE, INNER)),
            ("ffn_down", (INNER, WIDE)),
        ):
            made |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[1:]}
        for name in ("ln1", "ln2"):
            made |= {f"{layer}.{name}.{each}": (WIDE,) for each in ("weight", "bias")}
    return made


@pytest.fixture(scope="module")
def eyes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = {"image_size": SIDE, "patch_size": PATCH, "embedding_length": WIDE}
    numbers |= {"feed_forward_length": INNER, "block_count": 2, "projection_dim": OUT}
    about = [
        entry("general.architecture", TEXT, "clip"),
        entry("clip.projector_type", TEXT, "mlp"),
        *(entry(f"clip.vision.{name}", UINT32, number) for name, number in numbers.items()),
        entry("clip.vision.attention.head_count", UINT32, 2),
        entry("clip.vision.attention.layer_norm_epsilon", FLOAT32, 1e-6),
        *(
            entry(f"clip.vision.image_{each}", LIST, (FLOAT32, [0.5] * 3))
            for each in ("mean", "std")
        ),
        *(_flag(f"clip.{each}") for each in ("has_vision_encoder", "use_gelu")),
    ]
    data, listed, shapes = bytearray(), bytearray(), _tensors()
    for name, shape in shapes.items():
        listed += struct.pack("<Q", len(name)) + name.encode()
        listed += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count, chance = 1, random.Random(name)
        for each in shape:
            count *= each
        some = [chance.gauss(0, 0.02) for _ in range(64)]
        data += struct.pack("<64f", *some) * (count // 64) + struct.pack(
            f"<{count % 64}f", *some[: count % 64]
        )
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(about)) + b"".join(about) + listed
    path = tmp_path_factory.mktemp("eyes") / "mmproj.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def _flag(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I?", BOOL, True)


@pytest.fixture(scope="module")
def seeing(weights: Path, eyes: Path) -> Iterator[LocalModel]:
    with LocalModel(weights, mmproj=eyes, max_tokens=1, context_tokens=1024, slots=1) as model:
        yield model


def _tokens(model: LocalModel, *messages: Any) -> int:
    return run(model.complete([*messages])).usage.input_tokens


def test_images_of_messages_and_results_are_shown_to_local_weights_that_see(
    seeing: LocalModel,
) -> None:
    def asked(image: dict[str, Any]) -> int:
        call = {"id": "1", "name": "look", "args": {}}
        return _tokens(
            seeing,
            {"role": "user", "content": [{"type": "text", "text": "The same?"}, image, image]},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": [image]},
        )

    note = {"type": "text", "text": "[image]"}
    more = asked(IMAGE) - asked(note)
    assert 3 * TOKENS - 24 < more < 3 * TOKENS + 24


@pytest.mark.parametrize(
    "mark",
    ("<|im_end|>", "<|turn>", "<turn|>", "<end_of_turn>", "<\uff5cUser\uff5c>", "[/INST]", "</s>"),
)
def test_local_weights_read_no_mark_of_any_chat_format_in_a_message(mark: str) -> None:
    messages = [{"role": "user", "content": f"a{mark}b"}, {"role": "tool", "content": mark}]
    written = json.dumps(plain_chat(messages, "m", OneCall()), ensure_ascii=False)
    assert mark not in written
    assert f"a{mark[0]} {mark[1:]}b" in written


def test_local_weights_that_see_read_the_runtimes_image_mark_as_text(seeing: LocalModel) -> None:
    text = {"type": "text", "text": "<__media__> and <__image__>"}
    assert _tokens(seeing, {"role": "user", "content": [text, IMAGE]}) > TOKENS


@pytest.mark.parametrize("url", ("http://127.0.0.1:9/a.png", "file:///etc/hostname", "a.png"))
def test_local_weights_that_see_fetch_no_image(seeing: LocalModel, url: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    with pytest.raises(ModelError, match="images that are given whole, not"):
        _tokens(seeing, {"role": "user", "content": content})


def test_local_weights_that_see_refuse_a_broken_image(seeing: LocalModel) -> None:
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    with pytest.raises(ModelError, match="image"):
        _tokens(seeing, {"role": "user", "content": [broken]})


def test_mmproj_file_that_is_missing_is_named(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none\.gguf: there is no such file"):
        LocalModel(weights, mmproj=tmp_path / "none.gguf")

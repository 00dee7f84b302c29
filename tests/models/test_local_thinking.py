"""Weights that reason before they answer: the grammar of an answer begins after the reasoning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moothall import LocalModel, ReasoningPiece
from moothall.models import DEFAULT_WEIGHTS, ModelReply
from moothall.testing.model_suite import joined_text, parts_of, run, user_message

# As Qwen3 has it; the second asks for reasoning whatever it is told.
_TURNS = """\
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and message.reasoning_content %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}
{{- message.content + '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"""
IF_ASKED = (
    _TURNS
    + """{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"""
)
ALWAYS = _TURNS + "{{- '<think>\\n' }}{%- endif %}"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def with_template(folder: Path, template: str) -> Path:
    """Return a copy of the weights in the box with another template of chats."""
    data = DEFAULT_WEIGHTS.require().read_bytes()
    key = b"tokenizer.chat_template" + (8).to_bytes(4, "little")
    at = data.index(key) + len(key)
    end = at + 8 + int.from_bytes(data[at : at + 8], "little")
    # What comes after it is aligned to 32 bytes: the place grows by a multiple of them.
    size = end - at - 8 + 32 * 32
    made = b"{#" + b" " * (size - len(template.encode()) - 4) + b"#}" + template.encode()
    path = folder / "thinking.gguf"
    path.write_bytes(data[:at] + size.to_bytes(8, "little") + made + data[end:])
    return path


def shown(form: str) -> list[dict[str, str]]:
    """Sums with short reasoning, which the smallest of models goes on with."""
    messages = []
    for a, b in ((1, 2), (2, 3), (5, 1), (4, 4)):
        messages += user_message(f"{a}+{b}?")
        said = f"<think>\nI add.\n</think>{form % (a + b)}"
        messages.append({"role": "assistant", "content": said})
    return [*messages, *user_message("2+2?")]


def asked(path: Path, **more: bool) -> tuple[ModelReply, str]:
    """The answer by the schema, and the reasoning that was streamed."""
    with LocalModel(path, max_tokens=60, threads=1, slots=1, **more) as model:  # type: ignore[arg-type]
        parts = run(parts_of(model, shown('{"answer": %d}'), None, SCHEMA))
    assert joined_text(parts) == parts[-1].text
    assert json.loads(parts[-1].text).keys() == {"answer"}
    return parts[-1], joined_text(parts, ReasoningPiece)


@pytest.mark.long
def test_weights_that_may_think_do_so_if_they_are_asked_to(tmp_path: Path) -> None:
    reply, thought = asked(with_template(tmp_path, IF_ASKED), thinking=True)
    assert reply.reasoning == thought == "I add.\n"


def test_weights_that_always_think_answer_by_the_schema_after_it(tmp_path: Path) -> None:
    reply, thought = asked(with_template(tmp_path, ALWAYS))
    assert reply.reasoning == thought == "I add.\n"

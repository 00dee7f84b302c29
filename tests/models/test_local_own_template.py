"""A model in this process that calls actions by the chat template of its weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.test_local_thinking import with_template
from moothall import Action, LocalModel, ReActAgent
from moothall.foundation.errors import ConfigError, ModelError
from moothall.memory import Memory
from moothall.models import ModelReply
from moothall.testing.model_suite import joined_text, parts_of, run, user_message

# In the manner of Hermes, Qwen2.5 and Qwen3.
HERMES = """\
{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for tool in tools %}
{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}{%- if m.role == 'tool' %}
{{- '<|im_start|>user\\nResult: ' + m.content + '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>\\n{"name": "' + c.function.name }}
{{- '", "arguments": ' + (c.function.arguments | tojson) + '}\\n</tool_call>\\n' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
ALTERNATES = """\
{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) and not tools %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}{%- if 'mallory' in (m.content or '') %}
{{- raise_exception('Cannot read: ' + m.content) }}{%- endif %}{%- endfor %}"""
SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}


def in_stock(item: str) -> int:
    """Return how many of an item are in stock."""
    return {"pears": 17, "figs": 4}.get(item, 0)


STOCK = Action("in_stock", in_stock)


def calling(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    made = [{"id": f"c{n}", "name": name, "args": args} for n, (name, args) in enumerate(calls)]
    return {"role": "assistant", "content": "", "tool_calls": made}


def looked_up(*items: str) -> list[dict[str, Any]]:
    """A question for the stock of items, its calls and their results, which are 0, 1, …"""
    return [
        *user_message(f"How many {' and '.join(items)} are in stock?"),
        calling(*(("in_stock", {"item": item}) for item in items)),
        *({"role": "tool", "tool_call_id": f"c{n}", "content": f"{n}"} for n in range(len(items))),
    ]


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# The smallest of models goes on with what it is shown.
SHOWN = [
    each for item in ("figs", "nuts") for each in (*looked_up(item), said(f"There are 0 {item}."))
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    path = with_template(tmp_path_factory.mktemp("own"), HERMES)
    with LocalModel(path, template="own", max_tokens=60, threads=1, slots=1) as model:
        yield model


def test_own_template_model_calls_an_action_and_reads_its_result(model: LocalModel) -> None:
    memory = Memory()
    for each in SHOWN:
        memory.add_memory(each)
    agent = ReActAgent("a", model, actions=[STOCK], memory=memory)
    reply = agent.reply_sync("How many pears are in stock?")
    assert [(step.action, step.args) for step in reply.steps] == [("in_stock", {"item": "pears"})]
    assert (reply.text, reply.stop_reason) == ("There are 17 pears.", "done")
    assert reply.usage.output_tokens > 20


def test_own_template_model_may_answer_without_a_call_in_pieces(model: LocalModel) -> None:
    parts = run(parts_of(model, [*SHOWN, *user_message("Hello")], [STOCK]))
    assert joined_text(parts) == parts[-1].text != ""
    assert (parts[-1].calls, parts[-1].finish_reason) == ((), "stop")
    assert len(parts) > 5


@pytest.mark.long
def test_own_template_model_calls_actions_at_once_with_the_same_ids_each_time(
    model: LocalModel,
) -> None:
    items = ("figs", "nuts"), ("plums", "dates")
    shown = [each for two in items for each in (*looked_up(*two), said("Some."))]
    asked = [*shown, *user_message("How many pears and leeks are in stock?")]
    replies = [run(model.complete(asked, [STOCK])) for _ in range(2)]
    made = [(each.id, each.name, json.loads(each.args)) for each in replies[0].calls]
    assert made == [
        ("call_5", "in_stock", {"item": "pears"}),
        ("call_6", "in_stock", {"item": "leeks"}),
    ]
    assert replies[0].calls == replies[1].calls


@pytest.mark.long
def test_own_template_schema_beside_actions_is_met_by_a_call_of_its_own(model: LocalModel) -> None:
    shown = []
    for item in ("figs", "nuts"):
        final = calling(("final_answer", {"number": 0}))
        shown += [*looked_up(item), final, {"role": "tool", "tool_call_id": "c0", "content": "ok"}]
    parts = run(parts_of(model, [*shown, *looked_up("pears")], [STOCK], SCHEMA))
    assert json.loads(parts[-1].text).keys() == {"number"}
    assert joined_text(parts) == parts[-1].text
    assert parts[-1].calls == ()


def test_own_template_schema_alone_is_met_by_the_text(model: LocalModel) -> None:
    reply = run(model.complete(user_message("2+2?"), None, SCHEMA))
    assert json.loads(reply.text).keys() == {"number"}


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    path = with_template(tmp_path_factory.mktemp("alternates"), ALTERNATES + HERMES)
    with LocalModel(path, template="own", max_tokens=1, threads=1, slots=1) as model:
        yield model


@pytest.mark.long
def test_own_template_marks_in_a_text_are_text(brief: LocalModel) -> None:
    def tokens(mark: str) -> int:
        (call, result) = looked_up("pears")[1:]
        asked = [*user_message("Hi"), call, {**result, "content": mark * 8}]
        reply: ModelReply = run(brief.complete(asked, [STOCK]))
        return reply.usage.input_tokens

    assert tokens("<|im_end|>") > tokens("0") + 24  # as one mark, each would be one token


def test_own_template_that_repeats_a_message_teaches_nothing_by_it(brief: LocalModel) -> None:
    with pytest.raises(ModelError, match="mallory"):
        run(brief.complete(user_message("mallory: system role not supported")))
    assert brief.learned == ()


def test_own_template_that_wants_other_roles_gets_them(brief: LocalModel) -> None:
    assert (
        run(brief.complete([*user_message("One."), *user_message("Two.")])).usage.input_tokens > 5
    )
    assert "turns of user and assistant that alternate" in brief.learned


@pytest.mark.parametrize(
    ("options", "fault"),
    (
        ({"template": "own"}, "whose chat template has tools, and that of .* has none"),
        ({"template": "hermes"}, "template= must be 'own' or None, got 'hermes'"),
    ),
)
def test_own_template_option_that_cannot_be_is_refused(
    shallow: Path, options: Any, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        LocalModel(shallow, **options)

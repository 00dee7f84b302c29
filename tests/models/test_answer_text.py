"""The text of an answer that a local model writes as JSON, while it is being written."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.actions import Action
from moothall.models import Call, ModelReply
from moothall.models.calling.choice import AnswerText, OneCall, choice_text, read_choice
from moothall.models.calling.listed import SeveralCalls
from moothall.testing.model_suite import ACTIONS

TEXTS = st.text(st.characters() | st.sampled_from('"\\/\n\té👋\ud83d\udc4b'), max_size=30)


def in_packets(written: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(written) + 1) for cut in cuts), len(written)]
    return [written[a:b] for a, b in pairwise(places)]


@given(TEXTS, st.booleans(), st.lists(st.integers(0, 400), max_size=12))
def test_answer_text_in_pieces_is_the_text_that_is_read_at_the_end(
    text: str, ascii: bool, cuts: list[int]
) -> None:
    written = json.dumps({"answer": text}, ensure_ascii=ascii)
    reader = AnswerText()
    said = "".join(reader.add(packet) for packet in in_packets(written, cuts))
    whole = read_choice(written)
    # Half a character ends what can be read before the end.
    assert said == whole or ("?" in whole and whole.startswith(said))
    said.encode()


@given(TEXTS, st.booleans(), st.integers(0, 400))
def test_answer_text_of_a_cut_answer_is_its_beginning(text: str, ascii: bool, cut: int) -> None:
    written = json.dumps({"answer": text}, ensure_ascii=ascii)
    whole = read_choice(written)
    assert isinstance(whole, str)
    begun = AnswerText().add(written[:cut])
    assert whole.startswith(begun)
    assert all(len(AnswerText().add(packet)) == 0 for packet in (written[:cut][:10], ""))


@pytest.mark.parametrize(
    "chosen",
    (
        {"action": "add", "args": {"answer": "no"}},
        {"answer": {"name": "Ann"}},
        {"answer": 5},
        {"answers": "no"},
        "answer",
    ),
    ids=str,
)
def test_answer_text_of_another_type_is_empty(chosen: Any) -> None:
    reader = AnswerText()
    assert "".join(map(reader.add, json.dumps(chosen))) == ""


@given(st.lists(st.text('{}":\\ answeru0d8\n', max_size=6)))
def test_answer_text_of_anything_written_can_be_shown(packets: list[str]) -> None:
    for written in (packets, ['{"answer": "', *packets]):
        reader = AnswerText()
        said = "".join(map(reader.add, written))
        assert said.encode().decode() == said  # half of a pair cannot be encoded


def tells(name: str) -> Action:
    of_text = {"type": "object", "properties": {"text": {"type": "string"}, "from": {}}}
    return Action(name, lambda **_: "sent", "Tell a customer.", of_text)


def call(name: str, **args: Any) -> str:
    return json.dumps([{"action": name, "args": args}])


@given(TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_answer_in_a_list_of_calls_is_said_as_it_is_written(text: str, cuts: list[int]) -> None:
    reader = SeveralCalls().answer_text([tells("answer")])
    written = call("answer_", text=text)
    said = "".join(reader.add(packet) for packet in in_packets(written, cuts))
    assert said == text or "\ud83d" in text or "\udc4b" in text


@pytest.mark.parametrize(
    "written",
    (
        call("answer", text="to the customer"),
        call("answer_customer", text="to the customer"),
        "[1, 2]",
        '[{"action": 5, "args": {"text": "no"}}]',
        '["answer"]',
    ),
)
def test_text_of_a_call_in_a_list_is_no_answer(written: str) -> None:
    reader = SeveralCalls().answer_text([tells("answer"), tells("answer_customer")])
    assert "".join(map(reader.add, written)) == ""


def test_list_of_calls_shows_parameters_by_their_own_names_and_an_answer_where_it_may() -> None:
    part = SeveralCalls().prompt_part
    shown = {may: part([tells("tell")], may_answer=may) for may in (False, True)}
    assert all("from: Any = None" in each for each in shown.values())

    def pay(cents: int, note: str = "") -> None:
        """Pay."""

    text = SeveralCalls().prompt_part([Action("pay", pay)], may_answer=False)
    assert "def pay(cents: int, note: str = None):" in text
    assert '"answer"' in shown[True]
    assert "answer" not in shown[False].lower().replace("answer with json", "")


def test_choice_prompt_shows_how_to_answer_where_a_model_may() -> None:
    shown = {may: choice_text(ACTIONS, may_answer=may) for may in (False, True)}
    assert shown[True] == shown[False] + '\nTell the user what came of it. {"answer": text}'


ADD = '{"action": "add", "args": {"a": 1}}'


@pytest.mark.parametrize(
    "written",
    (
        '{"action": "add", "args": {}, "answer": "3"}',
        f'[{ADD}, {{"action": "add"}}]',
        '{"action": 5, "args": {}}',
        '{"action": "add", "args": []}',
        '{"answer": "3", "more": 1}',
        "5",
    ),
)
def test_choice_that_is_no_whole_call_and_no_answer_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="neither actions with their arguments nor an answer"):
        read_choice(written)


@pytest.mark.parametrize(("form", "written"), ((OneCall(), ADD), (SeveralCalls(), f"[{ADD}]")))
def test_choice_is_the_next_call_of_its_conversation(form: OneCall, written: str) -> None:
    before = [{"role": "assistant", "tool_calls": [{"id": "call_1", "name": "add", "args": {}}]}]
    reply = form.read(ModelReply(written), before, ACTIONS)
    assert (reply.text, reply.finish_reason) == ("", "calls")
    assert reply.calls == (Call("call_2", "add", {"a": 1}),)


@pytest.mark.parametrize(
    ("written", "is_valid"),
    (
        ({"action": "add", "args": {"a": 1, "b": 2}}, True),
        ({"action": "add", "args": {"a": 1, "b": 2, "c": 3}}, False),
        ({"action": "list_files", "args": {}}, True),
        ({"action": "list_files", "args": {"path": "."}}, False),
        ({"action": "open", "args": {"a": 1}}, False),
        ({"action": "other", "args": {}}, False),
        ({"answer": "3"}, True),
        ({"answer": 3}, False),
    ),
    ids=str,
)
def test_choice_is_held_to_the_arguments_that_a_model_is_shown(
    written: Any, is_valid: bool
) -> None:
    actions = [*ACTIONS, Action("open", lambda **_: "open", "Open.", {"type": "object"})]
    schema = OneCall().text_schema(actions, {"type": "string"})
    assert jsonschema.Draft202012Validator(schema).is_valid(written) is is_valid
    listed = SeveralCalls().text_schema(actions, {"type": "string"})
    if "action" in written:
        assert jsonschema.Draft202012Validator(listed).is_valid([written]) is is_valid

"""Calls of a model in the process as a small program, which goes on with the calls' results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.model import ACTIONS, run, user
from moothall import AskAgain, Call, ModelReply, ReActAgent, ScriptedModel
from moothall.actions import ACCESS_REQUESTED, Action
from moothall.actions.approval import CallbackApprover
from moothall.foundation.errors import ConfigError, ModelError
from moothall.models import LocalModel, model
from moothall.models.calling.by_weights import form_of
from moothall.models.calling.program import ProgramOfCalls
from moothall.models.calling.syntax import Program, Result, WrongProgram

pytestmark = pytest.mark.xdist_group("local_model")

PARAMETERS = {"user_id": ("name",), "orders_of": ("user", "most"), "maps.way": ("a", "b")}


@pytest.fixture(scope="module")
def program(shallow: Path) -> Iterator[LocalModel]:
    """The small weights, made to write programs, which they do badly and by the grammar."""
    with LocalModel(shallow, max_tokens=24, context_tokens=2048, calls="program") as model:
        yield model


def asked(source: str, *results: list[str]) -> Any:
    """What a program wants after some results."""
    given = [[Result.of(each) for each in group] for group in results]
    return Program(source, PARAMETERS).proceed(given)


# -- what a program does ---------------------------------------------------------------------------


def test_a_call_inside_a_call_comes_first_and_its_result_is_the_argument() -> None:
    source = 'orders = orders_of(user=user_id(name="Ada"), most=2 * 3)\nanswer(f"{orders[0]}!")'
    assert asked(source).calls == [("user_id", {"name": "Ada"})]
    args = asked(source, ["41"]).calls[0][1]
    assert (args["user"].value, args["most"]) == (41, 6)
    assert asked(source, ["41"], ['["a lamp"]']).answer == "a lamp!"


def test_lines_run_one_after_the_other_and_arguments_side_by_side() -> None:
    source = 'maps.way(user_id("Ada"), user_id("Bo"))\nuser_id("Cy")'
    assert [args for _, args in asked(source).calls] == [{"name": "Ada"}, {"name": "Bo"}]
    assert [name for name, _ in asked(source, ["1", "2"]).calls] == ["maps.way"]
    assert asked(source, ["1", "2"], ["3"]).calls == [("user_id", {"name": "Cy"})]
    assert asked(source, ["1", "2"], ["3"], ["4"]).ended


@pytest.mark.parametrize(
    ("source", "says"),
    (
        ('answer(f"{1 / 4:.1f} and {3 - 5}")', "0.2 and -2"),
        ('a = user_id("x")\nanswer(a)', "0041"),
        ('a = user_id("x")\nanswer(f"No. {a}")', "No. 0041"),
        ('answer({"of": [1, None, true]})', {"of": [1, None, True]}),
        ('answer("a" + "b")', "ab"),
    ),
)
def test_a_program_answers_with_constants_operations_and_texts(source: str, says: Any) -> None:
    made = asked(source, ["0041"])
    assert getattr(made.answer, "text", made.answer) == says


@pytest.mark.parametrize(
    "source",
    (
        "__import__('os').system('true')",
        "user_id(name=open('/etc/passwd').read())",
        "().__class__.__bases__[0].__subclasses__()",
        "x = [c for c in (1, 2)]",
        "import os",
        "lambda: user_id('a')",
        "user_id(**{'name': 'a'})",
        "user_id(*['a'])",
        "user_id(other='a')",
        "user_id('a', name='b')",
        "user_id(name=unknown)",
        "answer(user_id)",
        "orders_of(user=2 ** 99999999)",
        "answer(f'{user_id!r:>{99999999}}')",
        "a.b = user_id('a')",
        "while True: user_id('a')",
        "answer('a')\nuser_id('a')",
        "radius = 4\ncurrent = 5",
        "radius = 4\nanswer(f'{unknown}')",
        "((" * 500,
        "x = " + "(" * 90 + "1" + ")" * 90 + "+1" * 3000,
    ),
)
def test_a_program_with_anything_else_is_refused_before_a_call(source: str) -> None:
    with pytest.raises(WrongProgram):
        asked(source)


def test_an_answer_with_a_name_that_is_not_known_costs_none_of_the_calls() -> None:
    source = 'a = user_id(name="Ada")\nanswer(f"{the_number}")'
    assert asked(source).calls == [("user_id", {"name": "Ada"})]
    after = asked(source, ["41"])
    assert (after.ended, after.answer) == (True, None)  # so the model is asked for it


@pytest.mark.parametrize(
    ("source", "result"),
    (
        ('a = user_id("x")\norders_of(user=a)', '{"error": "there is no such user"}'),
        ('a = user_id("x")\norders_of(user=a)', "long…\n[cut: the first 5 of 900 characters]"),
        ('a = user_id("x")\norders_of(user=a / 0)', "4"),
        ('a = user_id("x")\norders_of(user=a["id"])', "4"),
        ('a = user_id("x")\norders_of(user=a * 2)', "four"),
    ),
)
def test_a_program_stops_at_a_result_that_it_cannot_use(source: str, result: str) -> None:
    with pytest.raises(WrongProgram):
        asked(source, [result])


# -- in a model, and in the loop -------------------------------------------------------------------


def begun(source: str, name: str, args: dict[str, Any]) -> ModelReply:
    """A model's answer that begins a program with a call."""
    block = {"type": "program", "text": source, "step": 1}
    return ModelReply(calls=(Call("call_1", name, args),), thinking=(block,))


def test_a_program_goes_on_through_policy_and_approval_without_asking_the_model(
    program: LocalModel,
) -> None:
    ran = []

    def find(name: str) -> int:
        """Find a number."""
        ran.append(name)
        return 41

    def erase(number: int) -> str:
        """Erase it."""
        ran.append(number)
        return "erased"

    source = 'number = find(name="Ada")\nresult = erase(number=number)\nanswer(f"It is {result}.")'

    async def answer(messages: list[dict[str, Any]], actions: list[Action] | None) -> Any:
        if len(messages) == 1:
            return begun(source, "find", {"name": "Ada"})
        return await program.complete(messages, actions)

    asked_for = []

    def permit(request: Any) -> bool:
        asked_for.append(request.args)
        return True

    actions = [Action.of(find), Action("erase", erase, access_policy=ACCESS_REQUESTED)]
    agent = ReActAgent(
        "a", ScriptedModel(answer), actions=actions, approver=CallbackApprover(permit)
    )
    reply = agent.reply_sync("Erase what Ada has")
    assert (reply.text, ran, asked_for) == ("It is erased.", ["Ada", 41], [{"number": 41}])
    assert [step.args for step in reply.steps] == [{"name": "Ada"}, {"number": 41}]
    assert not program.loaded


def conversation(source: str, action: str, args: dict[str, Any], result: str) -> list[Any]:
    """A conversation that ends with the result of a program's first call."""
    made = begun(source, action, args)
    call = {"id": "call_1", "name": action, "args": args}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [
        *user("Do it"),
        {**said, "thinking": list(made.thinking)},
        {"role": "tool", "tool_call_id": "call_1", "name": action, "content": result},
    ]


def test_a_result_becomes_the_type_that_the_next_parameter_takes(program: LocalModel) -> None:
    source = "found = list_files()\nread_file(file_name=found)"
    reply = run(program.complete(conversation(source, "list_files", {}, "12"), ACTIONS))
    assert [(call.name, call.args) for call in reply.calls] == [("read_file", {"file_name": "12"})]
    assert (reply.usage.total, reply.finish_reason) == (0, "calls")


def test_after_a_program_without_an_answer_the_model_is_asked(program: LocalModel) -> None:
    messages = conversation("list_files()", "list_files", {}, "no file")
    reply = run(program.complete(messages, ACTIONS[1:2]))
    assert reply.usage.output_tokens > 0


def test_a_search_for_actions_is_a_program_of_its_own_and_then_what_was_found_is_called(
    program: LocalModel,
) -> None:
    def erase(number: int) -> str:
        """Erase a number."""
        return "erased"

    form, shown, replies, offered = ProgramOfCalls(), [], [], []

    async def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        offered[:] = actions
        shown.append((form.head(actions, may_answer=True), form.going_on(messages, actions)))
        if len(shown) > 1:
            return "Done."
        replies.append(await program.complete(messages, actions))
        return begun('find_actions(words="erase")', "find_actions", {"words": "erase"})

    hidden = [Action("erase", erase, deferred=True)]
    ReActAgent("a", ScriptedModel(answer), actions=hidden).reply_sync("Erase 4")
    (reply,), (before, after) = replies, shown
    assert reply.finish_reason == "length" or bool(reply.text) is not (len(reply.calls) == 1)
    assert 'find_actions(words="age of an animal")' in before[0]
    assert "def erase(number: int)" in after[0]
    assert after[1].endswith("Write the program that does what the user asks for.")
    nothing = conversation('find_actions(words="x")', "find_actions", {"words": "x"}, "No match.")
    assert form.going_on(nothing, offered) is None  # the result says what to do


def test_each_call_of_a_program_fits_its_schema_and_has_names_with_dots(
    program: LocalModel,
) -> None:
    def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    kinds = {"type": "object", "properties": {"class": {"enum": ["x", "y"]}}, "required": ["class"]}
    offered = [Action("math.add", add), Action("pick-one", add, "Pick.", kinds)]
    reply = run(program.complete(user("Add 2 and 3"), offered))
    assert reply.calls or reply.text or reply.finish_reason == "length"
    for call in reply.calls:
        (found,) = [each for each in offered if each.name == call.name]
        jsonschema.validate(call.args, found.parameters)


def test_a_list_of_calls_may_be_several_or_an_answer_from_the_first_token_on(
    shallow: Path,
) -> None:
    with LocalModel(shallow, max_tokens=24, context_tokens=2048, calls="list") as model:
        reply = run(model.complete(user("Add 2 and 3, and add 4 and 5"), ACTIONS[:1]))
    assert reply.calls or reply.text or reply.finish_reason == "length"


def test_tool_choice_names_the_action_that_must_be_called(shallow: Path) -> None:
    with LocalModel(shallow, max_tokens=24, tool_choice="list_files") as forced:
        made = run(forced.complete(user("Good morning!"), ACTIONS))
    assert [call.name for call in made.calls] == ["list_files"]
    with pytest.raises(ModelError, match="tool_choice= names 'other', which is no action"):
        run(LocalModel(shallow, tool_choice="other").complete(user("Hi"), ACTIONS))


def test_the_form_of_calls_belongs_to_the_weights(shallow: Path) -> None:
    assert LocalModel(shallow).calls == "one"
    assert LocalModel(shallow, calls="list").calls == "list"
    assert form_of("Qwen2.5 Coder 1.5B Instruct") == "program"
    assert form_of("Qwen3 4B") == "list"
    with pytest.raises(ConfigError, match="calls="):
        LocalModel(shallow, calls="many")  # type: ignore[arg-type]


def test_the_name_of_a_file_says_how_it_is_written() -> None:
    with pytest.raises(ModelError, match=r"is a file: write gguf:/models/a\.gguf"):
        model("local:/models/a.gguf")


def test_a_second_try_is_warmer_so_that_it_does_not_repeat_the_first(shallow: Path) -> None:
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
        run(heard.complete(user("Say hello")))
    assert seen == [0.0, 0.6, 0.0]

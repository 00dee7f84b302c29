"""Calls as a small program: the prompt, the grammar, and how the program goes on.

Weights that write code choose better in this form, since the second call can take the first one's
result. A grammar admits only the offered functions, with constants that fit their schemas. The
program travels with the first message of its calls, as a block of `thinking`; with each result it
goes on, and the model is asked again only once it has ended without an answer, or cannot go on.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from moothall.foundation.jsonvalue import readable
from moothall.models.calling.choice import GUIDANCE, AnswerText, OneCall, with_calls
from moothall.models.calling.syntax import ANSWER, Program, Result, WrongProgram
from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from moothall.actions import Action

_KIND: Final = "program"
_HEAD = """\
You answer by writing a short program in Python. It may call only the functions below.
Write one line for each thing that the user asks for, with all arguments by name. A line may use \
the result of an earlier one. Never make up a value that a function can give.
The last line may be answer("…"), which tells the user; {{name}} in answer(f"…") is filled in.
If no function helps with what the user asks for, write nothing but {otherwise}.

Examples, with other functions:
User: How long is the hull of the Zorp in feet?
ship = ship_number(name="Zorp")
metres = hull_length(ship=ship)
answer(f"The hull of the Zorp is {{metres * 3.28}} feet long.")
User: Paint hatch A red and hatch B blue.
paint(hatch="A", colour="red")
paint(hatch="B", colour="blue")
User: How old is the oldest zebra?
{example}

The functions:
"""
_NONE: Final = 'answer("I have no function that knows the age of animals.")'
_RULES = """
program: line_first ("\\n" line){0,15}
line_first: call_first | VAR " = " sum_first
line: call | VAR " = " sum
NUMBER: /-?[0-9]{1,15}(\\.[0-9]{1,10})?/
STRING: /"[a-zA-Z0-9_ -]{1,40}"/
PLAIN: /[^"\\\\{}\\n]+/
FORMAT: /,?\\.[0-4]f/
text: "f\\"" (PLAIN | "{" shown (":" FORMAT)? "}")* "\\""
shown: shown_term ((" + " | " - ") shown_term)*
shown_term: shown_factor ((" * " | " / ") shown_factor)*
shown_factor: NUMBER | VAR ("[" (/[0-9]{1,3}/ | /'[a-zA-Z0-9_ -]{1,40}'/) "]")* | "(" shown ")"
"""
# In the first line there is no result yet that has a name.
_EACH_LINE = """
ref@: (%s) ("[" (/[0-9]{1,3}/ | STRING) "]")*
sum@: term@ ((" + " | " - ") term@)*
term@: factor@ ((" * " | " / ") factor@)*
factor@: NUMBER | ref@ | "(" sum@ ")"
"""
_NUMBERS = ("integer", "number")
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_TYPES |= {"array": "list", "object": "dict", "null": "None"}
_ENDED = """\
The program has run, and these are its results. If they are what the user asked for, write one \
line: answer("…"), with what the results say, in a sentence. Write more calls only if the user \
asked for something that is still missing."""


_FOUND = """\
What was found can be called now, as the last of the functions. Write the program that does what \
the user asks for."""


class ProgramOfCalls(OneCall):
    """Calls as a small program of Python; a search for more functions is a program of its own."""

    before_user = ""

    def head(self, actions: list[Action], *, may_answer: bool) -> str:
        """Return the part of the prompt that shows the actions, as signatures."""
        functions = [Function(name, each) for name, each in _named(actions)]
        otherwise, example = 'answer("…")', _NONE
        for name in (each.name for each in functions if each.action._finds):
            otherwise, example = f'{name}(words="…")', f'{name}(words="age of an animal")'
        head = _HEAD.format(otherwise=otherwise, example=example)
        return head + "\n".join(each.shown for each in functions)

    def written(self, message: Mapping[str, Any]) -> str:
        """Return the program of an assistant's message, or its calls as lines."""
        if begun := _block(message):
            return str(begun["text"]) if begun.get("step") == 1 else ""
        return "\n".join(
            f"{each['name']}({_arguments(each['args'])})"
            for each in message.get("tool_calls") or ()
        )

    def held_to(
        self, actions: list[Action], answer: Mapping[str, Any] | None
    ) -> dict[str, Any] | str:
        """Return the grammar of a program."""
        functions = [Function(name, each) for name, each in _named(actions)]
        finders = [n for n, each in enumerate(functions) if each.action._finds]
        others = [n for n, each in enumerate(functions) if not each.action._finds]
        rules = [_RULES]
        for line, ref in (("_first", "call_first"), ("", "VAR | call")):
            rules.append((_EACH_LINE % ref).replace("@", line))
            names = " | ".join(f"call{line}_{n}" for n in others or finders)
            rules.append(f"call{line}: {names}")
            rules += [each.rules(line, n) for n, each in enumerate(functions)]
        # A result's name is no function's name, so that a function is called, not mentioned.
        taken = [re.escape(each.name) for each in functions if "." not in each.name]
        taken += [ANSWER, "true", "false", "null", *keyword.kwlist]
        rules.append(f"VAR: /[a-z_][a-z0-9_]{{0,30}}/ & ~/{'|'.join(taken)}/")
        starts = [*(f"call_first_{n}" for n in finders), *(["program"] if others else [])]
        if answer is not None:
            # Alone, an answer has no results to fill in.
            filled = " | text | sum" if answer == {"type": "string"} else ""
            rules += [f"said: {_constant(answer)}", f"says: said{filled}"]
            ending = f'("\\n{ANSWER}(" says ")")?'
            starts = [each if each != "program" else f"program {ending}" for each in starts]
            starts.append(f'"{ANSWER}(" said ")"')
        return f"%llguidance {{}}\nstart: {' | '.join(starts)}\n" + "\n".join(rules)

    def read(
        self, reply: ModelReply, messages: list[dict[str, Any]], actions: list[Action]
    ) -> ModelReply:
        """Return the reply with the program's first calls, or with its answer."""
        return _carried_out(reply, reply.text, [], messages, actions)

    def going_on(
        self, messages: list[dict[str, Any]], actions: list[Action]
    ) -> ModelReply | str | None:
        """Return the next calls of the program, or its answer, or what the model must be told."""
        found = _underway(messages)
        if found is None:
            return None
        source, groups = found
        try:
            results = [[Result.of(text) for text in group] for group in groups]
            made = _carried_out(ModelReply(), source, results, messages, actions)
        except WrongProgram as error:
            return f"The program stopped: {error}. {_ENDED}"
        if made.calls or made.text:
            return made
        if not any(each._finds and each.name == messages[-1].get("name") for each in actions):
            return _ENDED
        return _FOUND if isinstance(results[-1][-1].value, list) else None

    def answer_text(self, actions: list[Action]) -> AnswerText:
        """Return a reader of the text of a program that only answers."""
        return _Said()


class _Said(AnswerText):
    def _read(self, raw: str) -> Any:
        start = f'{ANSWER}("'
        # What follows the string is the bracket, which is no JSON.
        text = raw.removeprefix(start[:-1]).removesuffix(")")
        return from_json(text, allow_partial="trailing-strings") if raw.startswith(start) else None


def _block(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the block of a message that has the program of its calls."""
    for block in message.get("thinking") or ():
        if isinstance(block, Mapping) and block.get("type") == _KIND:
            return block if isinstance(block.get("text"), str) else None
    return None


def _underway(messages: list[dict[str, Any]]) -> tuple[str, list[list[str]]] | None:
    """Return the program whose calls' results end the conversation, with all its results."""
    groups: list[list[str]] = []
    results: dict[str, str] = {}
    source: str = ""
    step: Any = 0
    for message in reversed(messages):
        content = message.get("content")
        if message.get("role") == "tool" and isinstance(content, str):
            results[message.get("tool_call_id", "")] = content
            continue
        block = _block(message)
        calls = message.get("tool_calls") or ()
        if block is None or any(each["id"] not in results for each in calls):
            return None
        if source and (block["text"] != source or block.get("step") != step - 1):
            return None
        source, step = block["text"], block.get("step")
        groups.insert(0, [results[each["id"]] for each in calls])
        results = {}
        if step == 1:
            return source, groups
    return None


def _carried_out(
    reply: ModelReply,
    source: str,
    results: list[list[Result]],
    messages: list[dict[str, Any]],
    actions: list[Action],
) -> ModelReply:
    """Return the reply with the calls that a program wants now, or with its answer."""
    functions = {name: Function(name, each) for name, each in _named(actions)}
    program = Program(source, {name: [*each.parameters] for name, each in functions.items()})
    progress = program.proceed(results)
    if progress.ended:
        said = progress.answer
        if isinstance(said, Result):
            said = said.text
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return replace(reply, text="" if said is None else readable(text))
    made = [functions[name].call(args) for name, args in progress.calls]
    block = {"type": _KIND, "text": source, "step": len(results) + 1}
    return replace(with_calls(reply, made, messages), thinking=(block,))


def _named(actions: Iterable[Action]) -> list[tuple[str, Action]]:
    """Return the actions with the names by which a program calls them."""
    taken: set[str] = {ANSWER}
    named = []
    for action in actions:
        name = action.name
        if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
            name = _identifier(name)
        while name in taken:
            name += "_"
        taken.add(name)
        named.append((name, action))
    return named


def _identifier(name: str) -> str:
    made = "".join(each if each.isalnum() and each.isascii() else "_" for each in name) or "_"
    return f"_{made}" if made[0].isdigit() else made + "_" * keyword.iskeyword(made)


class Function:
    """An action as a function: `parameters` has its parameters' own names by those shown.

    Those shown are names of Python, unless `own_names`.
    """

    def __init__(self, name: str, action: Action, own_names: bool = False) -> None:
        self.name = name
        self.action = action
        schema: Mapping[str, Any] = action.parameters or {}
        about: Mapping[str, Any] = schema.get("properties") or {}
        needed = [each for each in schema.get("required") or () if each in about]
        self._shared = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
        self._about = {each: about[each] for each in (*needed, *about)}
        self._needed = len(needed)
        self.parameters: dict[str, str] = {}
        for own in self._about:
            is_name = own.isidentifier() and not keyword.iskeyword(own)
            shown = own if own_names or is_name else _identifier(own)
            while shown in self.parameters:
                shown += "_"
            self.parameters[shown] = own

    @property
    def shown(self) -> str:
        """Return the function as the model is shown it."""
        signature, told = [], [_one_line(self.action.description)]
        for number, (shown, own) in enumerate(self.parameters.items()):
            about = self._about[own]
            optional = "" if number < self._needed else " = None"
            signature.append(f"{shown}: {_type(about)}{optional}")
            if text := _one_line(about.get("description") if isinstance(about, Mapping) else None):
                told.append(f"    {shown}: {text}")
        doc = "\n    ".join(filter(None, told))
        return f'def {self.name}({", ".join(signature)}):\n    """{doc}"""\n'

    def rules(self, line: str, number: int) -> str:
        """Return the grammar's rules for its calls, in the first line or in others."""
        own = f"c{line}_{number}"
        rules, rest = [], ""
        # From the last parameter on: `rest` is what may follow, each optional one or not.
        for n, (name, about) in reversed([*enumerate(self.parameters.items())]):
            rules.append(f"{own}v{n}: {_rule_of_value(self._about[about], self._shared, line)}")
            form = f'"{name}=" {own}v{n}'
            if n >= self._needed:
                rules.append(
                    f'{own}r{n}: ", " {form} {rest}' + (f" | {own}r{n + 1}" if rest else "")
                )
                rest = f"({own}r{n})?"
                if not self._needed:
                    after = f"({own}r{n + 1})?" if n + 1 < len(self.parameters) else ""
                    rules.append(f"{own}f{n}: {form} {after}")
        needed = [f'"{name}=" {own}v{n}' for n, name in enumerate(self.parameters)][: self._needed]
        inside = ' ", " '.join(needed)
        if needed:
            inside += f" {rest}"
        elif self.parameters:
            inside = f"({' | '.join(f'{own}f{n}' for n, _ in enumerate(self.parameters))})?"
        return f'call{line}_{number}: "{self.name}(" {inside} ")"\n' + "\n".join(rules)

    def call(self, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the call of the action; a result becomes the text or the value that it takes."""
        made = {}
        for shown, value in args.items():
            own = self.parameters[shown]
            if isinstance(value, Result):
                about = self._about[own]
                text = isinstance(about, Mapping) and about.get("type") == "string"
                value = value.text if text else value.value
            made[own] = value
        return self.action.name, made


def _rule_of_value(about: Any, shared: Mapping[str, Any], line: str) -> str:
    """Return what may stand for a parameter of this schema."""
    about = dict(about) if isinstance(about, Mapping) else {}
    kind = about.get("type")
    if kind == "integer" and "enum" not in about:
        about = {"minimum": -(2**53) + 1, "maximum": 2**53 - 1, **about}
    constant = _constant({**about, **shared})
    if kind in _NUMBERS:
        return f"{constant} | sum{line}"
    filled = " | text" if kind == "string" and "enum" not in about and not line else ""
    return f"{constant} | ref{line}{filled}"


def _constant(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({**schema, **GUIDANCE}, ensure_ascii=False)}"


def _type(about: Any) -> str:
    if not isinstance(about, Mapping):
        return "Any"
    if "enum" in about:
        return f"Literal[{', '.join(json.dumps(e, ensure_ascii=False) for e in about['enum'])}]"
    kind = about.get("type")
    if kind == "array" and isinstance(about.get("items"), Mapping):
        return f"list[{_type(about['items'])}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _arguments(args: Any) -> str:
    if not isinstance(args, Mapping):
        return str(args)
    return ", ".join(f"{name}={json.dumps(v, ensure_ascii=False)}" for name, v in args.items())


def _one_line(text: Any) -> str:
    return " ".join(text.split()).replace('"""', "'''") if isinstance(text, str) else ""

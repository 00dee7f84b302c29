"""A small program of calls, read as a syntax tree: nothing in it is evaluated by Python.

It has assignments of names, calls of offered actions, constants, lists, dicts, f-strings, items of
values and the four operations. The results of its calls come from outside: `proceed` returns the
calls whose arguments are known, and goes on when their results are there.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

ANSWER: Final = "answer"
"""The name of the function that answers the user."""

_MOST_CHARS = 100_000
_MOST_NODES = 2_000
_CONSTANTS = {"true": True, "false": False, "null": None}  # as JSON writes them
_OPERATIONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FORMAT = ("", ",", "d", ".0f", ".1f", ".2f", ".3f", ".4f", ",.0f", ",.1f", ",.2f", ".0%", ".1%")


class WrongProgram(ValueError):
    """A program cannot be carried out; the text says why, to its author."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: its text, and the value that this is as JSON."""

    text: str
    value: Any

    @classmethod
    def of(cls, content: str) -> Result:
        """Return the result in a message; WrongProgram if that is an error, or not whole."""
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            last = content.rpartition("\n")[2]
            if last is not content and last.startswith("[") and last.endswith("]"):
                raise WrongProgram("a result has a note beside it") from None
            return cls(content, content)
        if isinstance(value, dict) and value.keys() == {"error"}:
            raise WrongProgram("a call failed")
        return cls(content, value)


@dataclass(slots=True)
class Progress:
    """How far a program is: the calls to make now, with their arguments, or how it ended."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: Any = None
    ended: bool = False


_LATER: Final = object()
"""The value of a name that no call has given yet."""


class _Waits(Exception):
    """A value is not known before some calls have ended."""


class Program:
    """A program; WrongProgram for a text that is not one.

    Args:
        source: its text
        parameters: the names of the parameters of each function that it may call
    """

    def __init__(self, source: str, parameters: Mapping[str, Sequence[str]]) -> None:
        if len(source) > _MOST_CHARS:
            raise WrongProgram("it is too long")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise WrongProgram(f"it is not Python: {error}") from None
        if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
            raise WrongProgram("it is too long")
        self._parameters = parameters
        self._lines = tree.body
        self._ending: ast.Call | None = None  # the call of answer(…) in the last line
        names: dict[str, Any] = {}
        for number, line in enumerate(self._lines):
            value = getattr(line, "value", None)
            if not isinstance(line, ast.Assign | ast.Expr) or value is None:
                raise WrongProgram("it may only call functions, and name their results")
            ends = isinstance(value, ast.Call) and _name_of(value.func) == ANSWER
            if ends and number + 1 < len(self._lines):
                raise WrongProgram("answer(…) must be its last line")
            self._ending = value if ends and isinstance(line, ast.Expr) else None
            try:
                with suppress(_Waits):  # no result is there yet, but all of the line is looked at
                    self._value(value, names, {}, [])
            except WrongProgram:
                if not (ends and number):
                    raise
                # Its calls are made; for the answer, the model is asked again with their results.
                del self._lines[number]
                break
            if isinstance(line, ast.Assign):
                if len(line.targets) != 1 or not isinstance(line.targets[0], ast.Name):
                    raise WrongProgram("a result must be given one name")
                names[line.targets[0].id] = _LATER
        if not any(isinstance(each, ast.Call) for line in self._lines for each in ast.walk(line)):
            raise WrongProgram("it neither calls a function nor answers")

    def proceed(self, results: Iterable[Sequence[Result]]) -> Progress:
        """Go on with the results of the calls so far, in the groups in which they were made."""
        made: dict[int, Result] = {}
        groups = iter(results)
        names: dict[str, Any] = {}
        for line in self._lines:
            while True:
                wanted: list[ast.Call] = []
                try:
                    value = self._value(line.value, names, made, wanted)  # type: ignore[attr-defined]
                except _Waits:
                    group = next(groups, None)
                    if group is None:
                        return Progress([self._call(each, names, made) for each in wanted])
                    made |= {id(call): came for call, came in zip(wanted, group, strict=True)}
                else:
                    break
            if isinstance(line, ast.Assign):
                names[line.targets[0].id] = value  # type: ignore[attr-defined]
            elif line.value is self._ending:  # type: ignore[attr-defined]
                return Progress(answer=value, ended=True)
        return Progress(ended=True)

    def _value(
        self, node: Any, names: Mapping[str, Any], made: Mapping[int, Result], wanted: list[Any]
    ) -> Any:
        """Return a value; raise _Waits, with the calls that are wanted now, if it is not known.

        What no program has raises WrongProgram.
        """

        def of(child: Any) -> Any:
            return self._value(child, names, made, wanted)

        op = type(getattr(node, "op", None))
        if isinstance(node, ast.Call):
            self._check_call(node)
            known = self._all([*node.args, *(each.value for each in node.keywords)], of)
            if node is self._ending:
                return known[0]
            if id(node) not in made:
                wanted.append(node)
                raise _Waits
            return made[id(node)]
        if isinstance(node, ast.Name):
            if node.id not in names and node.id not in _CONSTANTS:
                raise WrongProgram(f"the name {node.id!r} is not defined")
            value = names[node.id] if node.id in names else _CONSTANTS[node.id]
            if value is _LATER:
                raise _Waits
            return value
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
            return node.value
        if isinstance(node, ast.List | ast.Tuple):
            return [_plain(each) for each in self._all(node.elts, of)]
        if isinstance(node, ast.Dict) and all(isinstance(k, ast.Constant) for k in node.keys):
            pairs = self._all([*node.keys, *node.values], of)
            keys, values = pairs[: len(node.keys)], pairs[len(node.keys) :]
            return {k: _plain(v) for k, v in zip(keys, values, strict=True)}
        if isinstance(node, ast.JoinedStr):
            return "".join(map(_text, self._all(node.values, of)))
        if isinstance(node, ast.FormattedValue):
            spec = self._all(getattr(node.format_spec, "values", ()), of)
            if any(each not in _FORMAT for each in spec):
                raise WrongProgram("a number's format must be like .2f")
            return _formatted(of(node.value), "".join(spec))
        if isinstance(node, ast.UnaryOp) and op is ast.USub:
            return _operated(operator.sub, 0, of(node.operand))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp):
            at, value = self._all([node.slice, node.value], of)
            return _item(_plain(value), at)
        if isinstance(node, ast.BinOp) and op in _OPERATIONS:
            left, right = self._all([node.left, node.right], of)
            return _operated(_OPERATIONS[op], left, right)
        raise WrongProgram(f"it may not use {type(node).__name__}")

    def _check_call(self, node: ast.Call) -> None:
        name = _name_of(node.func)
        if node is self._ending:
            if len(node.args) != 1 or node.keywords:
                raise WrongProgram("answer(…) takes one value")
            return
        if name not in self._parameters:
            raise WrongProgram(f"there is no function {name or ast.unparse(node.func)!r}")
        order = self._parameters[name]
        if len(node.args) > len(order):
            raise WrongProgram(f"{name}() takes {len(order)} arguments")
        given = list(order[: len(node.args)]) + [str(each.arg) for each in node.keywords]
        for name_ in given:
            if name_ not in order or given.count(name_) > 1:
                raise WrongProgram(f"{name}() takes no argument {name_!r} here")

    @staticmethod
    def _all(nodes: Iterable[Any], of: Callable[[Any], Any]) -> list[Any]:
        """Return the values of nodes; the calls of each that is not known yet are wanted."""
        values, waits = [], False
        for node in nodes:
            try:
                values.append(of(node))
            except _Waits:
                waits = True
        if waits:
            raise _Waits
        return values

    def _call(
        self, node: ast.Call, names: Mapping[str, Any], made: Mapping[int, Result]
    ) -> tuple[str, dict[str, Any]]:
        name = _name_of(node.func)
        of = [self._value(each, names, made, []) for each in node.args]
        args = dict(zip(self._parameters[name], of, strict=False))
        for each in node.keywords:
            args[str(each.arg)] = self._value(each.value, names, made, [])
        return name, args


def _name_of(node: ast.AST) -> str:
    """Return a name such as `add` or `math.add`; an empty text for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name_of(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Result) else value


def _text(value: Any) -> str:
    if isinstance(value, Result):
        return value.text
    if type(value) is float:
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _formatted(value: Any, spec: str) -> str:
    plain = _plain(value)
    if not spec:
        return _text(value)
    try:
        return format(plain, spec)
    except (ValueError, TypeError):
        return _text(value)


def _item(value: Any, at: Any) -> Any:
    try:
        return value[at]
    except (LookupError, TypeError):
        raise WrongProgram(f"a result has no item {at!r}") from None


def _operated(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    left, right = _plain(left), _plain(right)
    numbers = all(type(each) in (int, float) for each in (left, right))
    texts = operation is operator.add and isinstance(left, str) and isinstance(right, str)
    if not numbers and not texts:
        raise WrongProgram(f"{left!r:.40} and {right!r:.40} are not numbers")
    try:
        made = operation(left, right)
    except (ZeroDivisionError, OverflowError) as error:
        raise WrongProgram(str(error)) from None
    if isinstance(made, str):
        if len(made) > _MOST_CHARS:
            raise WrongProgram("a text becomes too long")
    elif not isfinite(made) or abs(made) > 1e300:
        raise WrongProgram("a number becomes too large")
    return made

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


class _Waits(Exception):
    """A value is not known before some calls have ended."""


class Program:
    """A program; WrongProgram if it is none.

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
        known: set[str] = set()
        for number, line in enumerate(self._lines):
            value = getattr(line, "value", None)
            if not isinstance(line, ast.Assign | ast.Expr) or value is None:
                raise WrongProgram("it may only call functions, and name their results")
            ends = isinstance(value, ast.Call) and _name_of(value.func) == ANSWER
            if ends and number + 1 < len(self._lines):
                raise WrongProgram("answer(…) must be its last line")
            try:
                self._check(value, known, ends and isinstance(line, ast.Expr))
            except WrongProgram:
                if not (ends and number):
                    raise
                # Its calls are made; for the answer, the model is asked again with their results.
                del self._lines[number]
                break
            if isinstance(line, ast.Assign):
                if len(line.targets) != 1 or not isinstance(line.targets[0], ast.Name):
                    raise WrongProgram("a result must be given one name")
                known.add(line.targets[0].id)
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
            elif isinstance(line.value, ast.Call) and _name_of(line.value.func) == ANSWER:  # type: ignore[attr-defined]
                return Progress(answer=value, ended=True)
        return Progress(ended=True)

    # -- what it may hold --------------------------------------------------------------------------

    def _check(self, node: ast.AST, known: set[str], may_answer: bool = False) -> None:
        """Raise WrongProgram for what no program has."""
        if isinstance(node, ast.Call):
            self._check_call(node, known, may_answer)
            return
        if isinstance(node, ast.Name):
            if node.id not in known and node.id not in _CONSTANTS:
                raise WrongProgram(f"the name {node.id!r} is not defined")
            return
        fits = isinstance(
            node, ast.List | ast.Tuple | ast.JoinedStr | ast.FormattedValue | ast.Subscript
        )
        if isinstance(node, ast.Constant):
            fits = node.value is None or isinstance(node.value, str | int | float)
        elif isinstance(node, ast.Dict):
            fits = all(isinstance(key, ast.Constant) for key in node.keys)
        elif isinstance(node, ast.BinOp):
            fits = type(node.op) in _OPERATIONS
        elif isinstance(node, ast.UnaryOp):
            fits = isinstance(node.op, ast.USub)
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = getattr(node.format_spec, "values", [])
            if not all(isinstance(e, ast.Constant) and e.value in _FORMAT for e in spec):
                raise WrongProgram("a number's format must be like .2f")
        if isinstance(node, ast.Subscript):
            fits = isinstance(node.slice, ast.Constant | ast.UnaryOp)
        if not fits:
            raise WrongProgram(f"it may not use {type(node).__name__}")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child, known)

    def _check_call(self, node: ast.Call, known: set[str], may_answer: bool) -> None:
        name = _name_of(node.func)
        if name == ANSWER and may_answer:
            if len(node.args) != 1 or node.keywords:
                raise WrongProgram("answer(…) takes one value")
        elif name not in self._parameters:
            raise WrongProgram(f"there is no function {name or ast.unparse(node.func)!r}")
        else:
            order = self._parameters[name]
            if len(node.args) > len(order):
                raise WrongProgram(f"{name}() takes {len(order)} arguments")
            given = list(order[: len(node.args)]) + [str(each.arg) for each in node.keywords]
            for name_ in given:
                if name_ not in order or given.count(name_) > 1:
                    raise WrongProgram(f"{name}() takes no argument {name_!r} here")
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._check(each, known)

    # -- its values --------------------------------------------------------------------------------

    def _value(
        self, node: Any, names: Mapping[str, Any], made: Mapping[int, Result], wanted: list[Any]
    ) -> Any:
        """Return a value; raise _Waits, with the calls that are wanted now, if it is not known."""

        def of(child: Any) -> Any:
            return self._value(child, names, made, wanted)

        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else _CONSTANTS[node.id]
        if isinstance(node, ast.Call):
            known = self._all([*node.args, *(each.value for each in node.keywords)], of)
            if _name_of(node.func) == ANSWER:
                return known[0]
            if id(node) not in made:
                wanted.append(node)
                raise _Waits
            return made[id(node)]
        if isinstance(node, ast.List | ast.Tuple):
            return [_plain(each) for each in self._all(node.elts, of)]
        if isinstance(node, ast.Dict):
            values = self._all(node.values, of)
            return {k.value: _plain(v) for k, v in zip(node.keys, values, strict=True)}  # type: ignore[union-attr]
        if isinstance(node, ast.JoinedStr):
            return "".join(map(_text, self._all(node.values, of)))
        if isinstance(node, ast.FormattedValue):
            spec = node.format_spec.values[0].value if node.format_spec else ""  # type: ignore[attr-defined]
            return _formatted(of(node.value), spec)
        if isinstance(node, ast.UnaryOp):
            return _operated(operator.sub, 0, of(node.operand))
        if isinstance(node, ast.Subscript):
            return _item(_plain(of(node.value)), ast.literal_eval(node.slice))
        assert isinstance(node, ast.BinOp)
        left, right = self._all([node.left, node.right], of)
        return _operated(_OPERATIONS[type(node.op)], left, right)

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

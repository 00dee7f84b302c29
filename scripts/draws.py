"""Small changes of the source, drawn from its tree: what `breaks.py` makes one at a time."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "moothall"

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
METHODS = {"appendleft": "append", "popleft": "pop"}
UNORDERED = {*NAMES, "isinstance", "issubclass", "suppress", "minimum", "maximum"}
"""Functions whose arguments are not swapped: it would change nothing, or fail at once."""
QUIET = {"debug", "info", "overload", "cast"}
"""Functions whose call a user does not see: log lines, and what only type checkers read."""


@dataclass(slots=True, eq=False)
class Break:
    """One small change of one place of a file."""

    file: str  # below src/moothall
    function: str  # its qualified name, or the class, or "" for a module's own statement
    line: int
    old: str
    new: str
    number: int  # of the change among those of its file

    @property
    def name(self) -> str:
        """Where it is and what it changes, without the line, which moves."""
        return f"{self.file}:{self.function}: {self.old} -> {self.new}"


Change = tuple[ast.AST, str, int | None, ast.AST | None]
"""A parent, its field, the place in the field's list, and the node to put there; None: take out."""


def changes_of(node: ast.AST) -> Iterator[Change]:
    """Yield the small changes of the children of one node."""
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if isinstance(child, ast.AST) and not isinstance(node, ast.UnaryOp):
                at = place if isinstance(value, list) else None
                for new in _others(child):
                    yield node, field, at, new
    if isinstance(node, ast.BoolOp):
        for place in range(len(node.values)):
            yield node, "values", place, None
    elif isinstance(node, ast.comprehension):
        for place in range(len(node.ifs)):
            yield node, "ifs", place, None
    elif isinstance(node, ast.If | ast.IfExp):
        yield node, "test", None, ast.Constant(value=True)
    elif isinstance(node, ast.Call):
        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in (
                None,
                "stacklevel",
                "encoding",
            ):  # tests/test_tree.py asks for it
                yield node, "keywords", place, None


def _others(child: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    match child:
        case ast.Compare(ops=[operator]):
            yield _with(child, ops=[OPPOSITES[type(operator)]()])
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _is_text(child):
            yield _with(child, op=OPPOSITES[type(child.op)]())
        case ast.BoolOp():
            yield _with(child, op=OPPOSITES[type(child.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield child.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(value=not child.value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(value=number + 1)
            yield ast.Constant(value=number - 1)
        case ast.Subscript(slice=ast.Constant(value=0)) if not _is_row(child):
            yield _with(child, slice=ast.Constant(value=-1))
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            yield _with(child, slice=ast.Constant(value=0))
        case ast.Call():
            yield from _other_calls(child)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) if not _is_quiet(child):
            yield ast.Pass()
        case ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()


def _other_calls(call: ast.Call) -> Iterator[ast.AST]:
    """Yield other calls: another function, two arguments swapped, characters for bytes."""
    match call:
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield _with(call, func=ast.Name(id=NAMES[name], ctx=ast.Load()))
        case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
            yield _with(call, func=_with(call.func, attr=METHODS[name]))
        case ast.Call(
            func=ast.Name(id="len"), args=[ast.Call(func=ast.Attribute(attr="encode", value=text))]
        ):
            yield _with(call, args=[text])
    if str(getattr(call.func, "id", getattr(call.func, "attr", ""))) in UNORDERED | QUIET:
        return
    for place, (one, two) in enumerate(zip(call.args, call.args[1:], strict=False)):
        is_starred = isinstance(one, ast.Starred) or isinstance(two, ast.Starred)
        if not is_starred and ast.dump(one) != ast.dump(two):
            yield _with(call, args=[*call.args[:place], two, one, *call.args[place + 2 :]])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    other = copy.copy(node)
    other.__dict__.update(fields)
    return other


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum is of texts or lists, which cannot be subtracted."""
    return any(
        isinstance(each, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in ast.walk(node)
    )


def _is_row(node: ast.Subscript) -> bool:
    """Whether it is the value of a row of a database, most of which have one."""
    return ast.unparse(node.value).endswith(".fetchone()")


def _is_quiet(statement: ast.Expr) -> bool:
    """Whether a user does not see that the call is left out."""
    call = statement.value
    call = call.value if isinstance(call, ast.Await) else call
    function = call.func if isinstance(call, ast.Call) else call
    return (function.attr if isinstance(function, ast.Attribute) else "") in QUIET


@dataclass(slots=True)
class Place:
    """A change, and where it stands: its statement in a list of statements, and its function."""

    change: Change
    function: str
    in_function: bool
    statements: list[ast.stmt]
    statement: ast.stmt
    names: set[str]  # what to look for when no function runs the statement
    entered: ast.FunctionDef | ast.AsyncFunctionDef | None  # the function whose default it is


def places_of(tree: ast.Module) -> list[Place]:
    """Return the changes of a module, always in the same order."""
    places: list[Place] = []

    def visit(node: ast.AST, name: str, inside: bool, where: Place | None) -> None:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.AnnAssign) and not (
            isinstance(node, ast.AnnAssign) and node.value is not None
        ):
            return  # texts are for people, types and assertions for type checkers
        skipped = {"annotation", "returns", "decorator_list", "type_params", "bases", "msg"}
        if isinstance(node, ast.Call) and ast.unparse(node).endswith("strict=True)"):
            skipped |= {"keywords"} if ast.unparse(node.func) == "zip" else set()  # an assertion
        if where is not None:
            places.extend(
                replace(where, change=change, function=name, in_function=inside)
                for change in changes_of(node)
                if change[1] not in skipped
            )
        for field, value in ast.iter_fields(node):
            if field in skipped:
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or _is_types_only(child):
                    continue
                inner, within, here = name, inside, where
                if isinstance(child, ast.stmt):
                    here = Place(
                        (child, "", None, None), name, inside, value, child, _targets(child), None
                    )
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    inner = f"{name}.{child.name}".removeprefix(".")
                    within = not isinstance(child, ast.ClassDef)
                    if within and here is not None:
                        here.entered = child  # type: ignore[assignment]
                visit(child, inner, within, here)

    visit(tree, "", False, None)
    return places


def _is_types_only(node: ast.AST) -> bool:
    """Whether only type checkers read a statement."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _targets(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives values to."""
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [statement.target]
        if isinstance(statement, ast.AnnAssign)
        else []
    )
    return {each.id for each in targets if isinstance(each, ast.Name)}


def apply(change: Change) -> Callable[[], None]:
    """Make a change, and return what takes it back."""
    parent, field, place, new = change
    value = getattr(parent, field)
    if place is None:
        setattr(parent, field, new)
    else:
        changed = list(value)
        changed[place : place + 1] = [] if new is None else [new]
        setattr(parent, field, changed)
    return lambda: setattr(parent, field, value)


def breaks_in(text: str, file: str) -> list[Break]:
    """Return every small change of the text of a file."""
    tree = ast.parse(text)
    breaks = []
    for number, place in enumerate(places_of(tree)):
        if not place.in_function and not place.names:
            continue
        parent = place.change[0]
        statement = isinstance(parent, ast.stmt | ast.Module) and place.change[1] != "test"
        shown = place.change[0]
        if place.change[2] is not None and isinstance(parent, ast.stmt):
            shown = getattr(parent, place.change[1])[place.change[2]]
        elif isinstance(parent, ast.comprehension | ast.arguments | ast.keyword) or statement:
            shown = place.statement
        before = _line(shown)
        back = apply(place.change)
        if shown is not parent and place.change[2] is not None and isinstance(parent, ast.stmt):
            after = _line(place.change[3] or ast.Pass())
        else:
            after = _line(shown)
        back()
        if before != after:
            line = getattr(place.change[0], "lineno", place.statement.lineno)
            breaks.append(Break(file, place.function, line, before, after, number))
    return breaks


def _line(node: ast.AST) -> str:
    """Return a node as text: of a statement that has others in it, its head."""
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    first, _, more = text.partition("\n")
    if more and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return next(each for each in text.split("\n") if "def " in each or "class " in each)
    return first if isinstance(node, ast.stmt) and hasattr(node, "body") else " ".join(text.split())


def changed(each: Break) -> str:
    """Return the whole text of the file of a break, with the change."""
    tree = ast.parse((SOURCE / each.file).read_text())
    apply(places_of(tree)[each.number].change)
    return ast.unparse(ast.fix_missing_locations(tree))


def files_of(house: str) -> list[str]:
    """Return the files of a house, or of a folder or file of it, such as `serving/doors`."""
    folder = SOURCE / house
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    if not paths:
        raise SystemExit(f"house must be a folder or file below src/moothall, got {house!r}")
    return [each.relative_to(SOURCE).as_posix() for each in paths]


def draw(house: str, count: int, seed: str, left_out: Iterable[str] = ()) -> list[Break]:
    """Draw breaks of a house, at most one of a function: the same for the same seed and source.

    Args:
        left_out: names of breaks that change nothing that a user sees
    """
    everything = [
        each for file in files_of(house) for each in breaks_in((SOURCE / file).read_text(), file)
    ]
    # By a hash, so that a change of the source changes few of the breaks that a seed draws.
    everything.sort(key=lambda each: hashlib.sha256(f"{seed} {each.name}".encode()).digest())
    left_out = set(left_out)
    drawn: dict[tuple[str, str], Break] = {}
    for each in everything:
        if len(drawn) < count and each.name not in left_out:
            drawn.setdefault((each.file, each.function), each)
    return list(drawn.values())


def marked(file: str, breaks: Iterable[tuple[int, Break]], readers: dict[str, set[int]]) -> str:
    """Return the text of a file that calls `__hit__` with the number of each break it comes to.

    Args:
        breaks: those of this file, with their numbers
        readers: numbers of breaks by the name whose value they change: each statement of a
            function that reads such a name calls `__hit__`
    """
    tree = ast.parse((SOURCE / file).read_text())
    functions = [
        each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    places = places_of(tree)
    calls: list[tuple[list[ast.stmt], ast.stmt, int]] = []
    for number, each in breaks:
        place = places[each.number]
        if place.entered is not None:
            calls.append((place.entered.body, place.entered.body[0], number))
        elif place.in_function:
            calls.append((place.statements, place.statement, number))
        else:  # what is read only while modules load: any function of the file
            calls.extend((it.body, it.body[0], -1 - number) for it in functions)
    for function in functions if readers else ():
        for node in ast.walk(function):
            name = str(getattr(node, "id", getattr(node, "attr", "")))
            calls.extend(
                (function.body, function.body[0], number) for number in readers.get(name, ())
            )
    if not calls:
        return ""
    done: set[tuple[int, int, int]] = set()
    for statements, statement, number in calls:
        if (key := (id(statements), id(statement), number)) not in done:
            done.add(key)
            place_of = next(index for index, it in enumerate(statements) if it is statement)
            statements.insert(place_of, ast.parse(f"__hit__({number})").body[0])
    first = next(
        index
        for index, each in enumerate(tree.body)
        if not (isinstance(each, ast.ImportFrom) and each.module == "__future__")
        and not (index == 0 and isinstance(each, ast.Expr))
    )
    tree.body.insert(first, ast.parse("from break_hits import hit as __hit__").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def readers_of(breaks: Iterable[tuple[int, Break]]) -> dict[str, set[int]]:
    """Return the breaks outside functions, by the name whose value they change."""
    readers: dict[str, set[int]] = {}
    for number, each in breaks:
        place = places_of(ast.parse((SOURCE / each.file).read_text()))[each.number]
        for name in place.names if not place.in_function else ():
            readers.setdefault(name, set()).add(number)
    return readers

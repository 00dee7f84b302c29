"""The paths of public names: what a class says of itself."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle  # noqa: TID251 - users pickle; we read our own bytes
import subprocess
import sys
import typing
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

import moothall
from moothall.journal import Entry, Wait
from moothall.research import Passage

PACKAGES = (
    *(
        "moothall",
        "moothall.build",
        "moothall.agents",
        "moothall.budget",
        "moothall.journal",
        "moothall.memory",
    ),
    *("moothall.models", "moothall.research", "moothall.serving", "moothall.society"),
    *("moothall.society.blocks", "moothall.spaces", "moothall.studio", "moothall.studio.gradio"),
)


def public_classes() -> dict[str, type]:
    """Each public class by its shortest public path."""
    found: dict[str, type] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if (
                inspect.isclass(thing)
                and thing.__qualname__ == name
                and thing not in found.values()
            ):
                found[f"{package}.{name}"] = thing
    return found


CLASSES = public_classes()


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )


def test_public_class_reads_as_its_public_path() -> None:
    assert len(CLASSES) > 200
    shown = [f"{each.__module__}.{each.__qualname__}" for each in CLASSES.values()]
    assert shown == [*CLASSES]
    assert f"{moothall.NoSuchRun}" == "<class 'moothall.NoSuchRun'>"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_public_class_pickled_is_the_same_class_by_its_public_path(protocol: int) -> None:
    for path, each in CLASSES.items():
        for dumps in (pickle.dumps, pickle._dumps):  # type: ignore[attr-defined]
            data = dumps(each, protocol)
            assert pickle.loads(data) is each, path  # noqa: S301 - our own bytes
            assert path.rpartition(".")[0].encode() in data


def test_public_error_pickled_keeps_its_class_and_text() -> None:
    error = moothall.ConfigError("limit must be above 0, got -1")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is moothall.ConfigError
    assert str(copy) == str(error)


def test_public_class_has_the_type_hints_of_the_module_that_defines_it() -> None:
    """Pydantic reads them where an action takes or returns one."""
    assert typing.get_type_hints(moothall.Price)["input"] is Decimal
    for each in (moothall.Price, Entry, Passage, Wait):
        named = {field.name for field in dataclasses.fields(each)}
        assert named <= typing.get_type_hints(each).keys()
        assert TypeAdapter(each)


def test_public_dataclass_is_the_base_of_another() -> None:
    @dataclasses.dataclass(frozen=True)
    class Fee(moothall.Price):
        name: str = ""

    assert Fee.__module__ == __name__
    assert {field.name for field in dataclasses.fields(moothall.Price)} < {
        field.name for field in dataclasses.fields(Fee)
    }
    assert typing.get_type_hints(Fee)["name"] is str


def test_public_class_reads_as_its_public_path_if_nobody_has_asked_for_its_name() -> None:
    done = run(
        "import asyncio\n"
        "from moothall import ReActAgent, ScriptedModel\n"
        "agent = ReActAgent(id='A', model=ScriptedModel(['Yes.']))\n"
        "print(type(asyncio.run(agent.reply('Well?'))))\n"
    )
    assert done.stdout == "<class 'moothall.Reply'>\n", done.stderr


@pytest.mark.parametrize(
    ("program", "last"),
    (
        (
            "from moothall import Budget\nBudget(tokens=-1)",
            "moothall.ConfigError: ",
        ),
        (
            "from moothall.spaces import NativeSpace\n"
            "from moothall.budget import Budget\nBudget(tokens=-1)",
            "moothall.ConfigError: ",
        ),
        (
            "from moothall.journal import Journal\nJournal('/')",
            "moothall.",
        ),
    ),
)
def test_public_error_in_a_traceback_reads_as_its_public_path(program: str, last: str) -> None:
    done = run(program)
    assert done.stderr.splitlines()[-1].startswith(last), done.stderr
    assert "moothall.foundation" not in done.stderr.splitlines()[-1]


def test_unknown_path_is_not_found_as_ever() -> None:
    last = run("import moothall.nothing").stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'moothall.nothing'"

"""What all commands have in common: wrong usage, settings that cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from commands import run
from moothall.cli.main import command as program
from moothall.cli.option_types import (
    Age,
    MomentType,
    NonEmptyText,
    NumberType,
    OneOf,
    WholeNumberType,
    above_0,
)


def moothall(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    empty = dict.fromkeys(
        ("MOOTHALL_MODEL", "MOOTHALL_ROOT", "MOOTHALL_KEY", "MOOTHALL_JOURNAL"), ""
    )
    return run(*args, cwd=cwd, env={**os.environ, **empty})


@pytest.mark.parametrize(
    ("args", "said"),
    (
        (("chat", "--model"), "Option '--model' requires an argument."),
        (("act", "X", "--max-seconds", "nan"), "must be a number of seconds above 0, got 'nan'"),
        (("act", "X", "--max-seconds", "inf"), "must be a number of seconds above 0, got 'inf'"),
        (("act", "X", "--model", "nope"), "there is no model 'nope'; "),
        (("act", "X", "--model", "local:nope"), "there are no weights called 'nope'; there are "),
        (("chat", "--model", "http:"), "there is no model 'http:'; names are local, "),
        (("act", "X", "--root", ""), """'--root': must not be "": it may be an unset variable"""),
        (("simulate", "--model", ""), """'--model': must not be "": it may be"""),
        (("chat", "--amqp", "--exchange", ""), """'--exchange': must not be "": it may be"""),
        (("chat", "--amqp", "--exchange", "amq.x"), "the exchange (exchange=, --exchange) must be"),
    ),
)
def test_wrong_usage_is_exit_code_2_and_says_how_it_is_used(
    args: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = moothall(*args, cwd=tmp_path)
    assert done.returncode == 2
    usage, help, _, error = done.stderr.splitlines()
    assert usage.startswith(f"Usage: moothall {args[0]} ") or usage.endswith(f" moothall {args[0]}")
    assert help.endswith(f" {args[0]} --help' for help.")
    assert said in error


@pytest.mark.parametrize(
    ("args", "command"),
    (
        (("research", "Why?", "--folder", ".", "--out", "--json"), "research"),
        (("runs", "export", "R", "--jsonl", "--journal", "j.db"), "runs export"),
        (("runs", "--journal", "--json"), "runs"),
        (("act", "X", "--root", "-h"), "act"),
    ),
)
def test_option_in_the_place_of_a_value_is_none(
    args: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    done = moothall(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Try 'moothall {command} --help' for help.\n" in done.stderr
    option = next(a for a, b in pairwise(args) if a[:2] == "--" and b[:1] == "-")
    assert done.stderr.endswith(f"Error: Option '{option}' requires an argument.\n")
    assert not [*tmp_path.iterdir()]


def test_value_that_is_spelled_as_an_option_is_taken_after_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lighthouse of Genoa is 77 metres tall.")
    asked = "How tall is the lighthouse of Genoa?"
    done = moothall("research", asked, "--folder", ".", "--out=--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "77 metres" in (tmp_path / "--json").read_text()


def test_arguments_passed_on_may_be_spelled_as_own_options(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import sys; sys.exit(f'got {sys.argv[1:]}')")
    given = ("mcp", "tools", sys.executable, "server.py", "--header", "--timeout")
    done = moothall(*given, cwd=tmp_path)
    assert "requires an argument" not in done.stderr


@pytest.mark.parametrize(
    ("args", "fault"),
    (
        (("waiting", "--json", "show", "x"), "waiting show takes no --json"),
        (("runs", "--since", "999999w"), "or how long ago (7d), got '999999w'"),
        (
            ("research", "x", "--step-model", "plan=a", "--step-model", "plan=b"),
            "--step-model: 'plan' is set twice: 'a', 'b'",
        ),
    ),
)
def test_option_that_would_be_dropped_is_refused(args: tuple[str, ...], fault: str) -> None:
    done = moothall(*args)
    assert done.returncode == 2
    assert fault in " ".join(done.stderr.split())


def test_command_that_is_misspelled_is_told_the_near_one() -> None:
    done = moothall("atc", "Tidy up")
    assert done.returncode == 2
    assert done.stderr.endswith("Error: No such command 'atc'. Did you mean 'act'?\n")


@pytest.mark.parametrize(
    ("line", "proposed"),
    (
        ("act --folder . X", "--root"),
        ("research --root . X", "--folder"),
        ("act --modle m", "--model"),
    ),
)
def test_option_of_another_command_is_told_the_one_of_this_command(
    line: str, proposed: str
) -> None:
    done = moothall(*line.split())
    assert done.returncode == 2
    assert done.stderr.endswith(f"Did you mean {proposed!r}?\n")


NO_FOLDER = 'moothall.toml: the root folder "nowhere" does not exist'


@pytest.mark.parametrize(
    ("text", "fault"),
    (
        ("model = ''", "'model' must be a text, got ''"),
        ("key = 7", "'key' must be a text"),  # and is not shown
        ("agents = 'a:b'", "there is no key 'agents'; there are model, root, key, [act], [chat]"),
        ("act = 1", "'act' must be a table, [act], got 1"),
        (
            "[act]\nagents = ['a:b']",
            "there is no key 'act.agents'; there are model, root, key",
        ),
        ("[chat]\nagents = 'a:b'", "'chat.agents' must be a list of texts, got 'a:b'"),
        ("[chat]\nagents = ['a:b', '']", "'chat.agents' must be a list of texts, got ['a:b', '']"),
        ("model = nope", "moothall.toml is not TOML: Invalid value (at line 1, column 9)"),
        ("model = 'nope'\n[chat]\nmodel = 'local'", "moothall.toml: there is no model 'nope'; "),
        ("model = 'local'\n[act]\nmodel = 'nope'", "moothall.toml: there is no model 'nope'; "),
        (
            "root = 'nowhere'\nmodel = 'nope'",
            'moothall.toml: the root folder "nowhere" does not exist',
        ),
    ),
)
def test_settings_that_are_wrong_are_refused_with_what_they_must_be(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moothall.toml").write_text(text)
    env = dict.fromkeys(("MOOTHALL_MODEL", "MOOTHALL_ROOT", "MOOTHALL_KEY"))
    done = CliRunner().invoke(program, ["act", "X"], env=env)
    assert (done.exit_code, done.stdout) == (2, "")
    said = fault if fault.startswith("moothall.toml") else f"moothall.toml: {fault}"
    assert f"Error: {said}" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    (
        (NumberType(min=0), "0", 0.0),
        (NumberType(min=0), "-1", "must be a number, 0 or more, got '-1'"),
        (above_0(), "0.5", 0.5),
        (above_0(), "0", "must be a number of seconds above 0, got '0'"),
        (NumberType("days", max=3), "3", 3.0),
        (NumberType("days", max=3), "3.1", "must be a number of days from 0 to 3, got '3.1'"),
        (NumberType(), "inf", "must be a number, got 'inf'"),
        (WholeNumberType(min=1, max=2000), "2000", 2000),
        (WholeNumberType(min=1), "0", "must be a whole number, 1 or more, got '0'"),
        (
            WholeNumberType(min=1, max=2000),
            "1.5",
            "must be a whole number from 1 to 2,000, got '1.5'",
        ),
        (NonEmptyText(), "", 'must not be "": it may be an unset variable'),
        (
            OneOf(("north", "south", "west")),
            "sout",
            "must be north, south or west, got 'sout' (did you mean 'south'?)",
        ),
        (Age(), "90s", 90.0),
        (Age(), "1.5m", 90.0),
        (Age(), "2h", 7200.0),
        (Age(), "1d", 86_400.0),
        (Age(), "1w", 604_800.0),
        (Age(), "30", "must be a number with s, m, h, d or w, such as 30d, got '30'"),
        (MomentType(), "2026-11-24", datetime(2026, 11, 24).timestamp()),
        (MomentType(), "2026-11-24T18:00", datetime(2026, 11, 24, 18).timestamp()),
        (MomentType(), "2026-11-24T18:00+00:00", 1795543200.0),
    ),
)
def test_option_takes_values_up_to_its_limits_and_says_what_others_must_be(
    kind: click.ParamType[Any], value: str, taken: object
) -> None:
    try:
        given: object = kind.convert(value, None, None)
    except click.BadParameter as error:
        given = error.message
    assert given == taken


def test_moments_of_words_and_ages_count_back_from_now() -> None:
    midnight = datetime.combine(date.today(), datetime.min.time())
    ago = timedelta(days=1)
    for word, moment in (("today", midnight), ("yesterday", midnight - ago)):
        assert MomentType().convert(word, None, None) == moment.timestamp()
    before = time.time()
    for word, seconds in (("90s", 90), ("2h", 7200), ("1w", 604_800)):
        moment = MomentType().convert(word, None, None)
        assert before - seconds - 0.001 <= moment <= time.time() - seconds + 0.001


def test_settings_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "moothall.toml").write_bytes(b'\xef\xbb\xbfmodel = "nope"\n')
    assert "there is no model 'nope'" in moothall("act", "X", cwd=tmp_path).stderr


def test_settings_that_are_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "moothall.toml")
    done = moothall("act", "X", cwd=tmp_path)
    assert (done.returncode, "moothall.toml must be a file" in done.stderr) == (2, True)


def test_command_in_a_removed_folder_says_so(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = (sys.executable, "-m", "moothall", "act", "X", "--model", "http://127.0.0.1:9/v1#m")
    done = subprocess.run(
        ("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *program),
        capture_output=True,
        text=True,
        timeout=50,
        cwd=gone,
    )
    assert done.returncode == 1
    assert done.stderr == "moothall: the current folder was removed: change to another one\n"


def test_full_disk_is_named_in_words() -> None:
    program = (sys.executable, "-m", "moothall", "--help")
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=50, env=buffered
        )
    assert (done.returncode, done.stderr) == (1, "moothall: No space left on device\n")


@pytest.mark.parametrize("closed", (1, 2))
def test_closed_output_changes_nothing_else(closed: int, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The milk is oat milk.\n")
    program = (sys.executable, "-m", "moothall", "research", "Which milk?", "--folder", ".")
    done = subprocess.run(
        ("sh", "-c", f'exec "$@" {closed}>&-', "sh", *program),
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Which milk?") is (closed == 2)
    assert ("\ndone: " in done.stderr) is (closed == 1)
    assert "iteration 1 of 3" not in done.stdout

"""Small breaks of the source, as `make breaks` draws them, and what it says of one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
try:
    from draws import SOURCE, breaks_in, changed, draw
finally:
    sys.path.pop(0)

EQUIVALENT = ROOT / "tests" / "equivalent_breaks.toml"


def changes(line: str, parameters: str = "") -> set[str]:
    """What a line of a function may become, whole lines or the parts that change."""
    found = breaks_in(f"async def act({parameters}):\n    {line}\n", "budget/budget.py")
    return {each.new for each in found}


@pytest.mark.parametrize(
    ("line", "broken"),
    (
        ("return a < b", "return a <= b"),
        ("return a and b and c", "a and c"),
        ("return a == b", "return a != b"),
        ("return [x for x in a if x > b]", "return [x for x in a]"),
        ("return a + 1", "a + 2"),
        ("return a + 1", "a + 0"),
        ("return f(a, b)", "return f(b, a)"),
        ("return f(a, b=c)", "f(a)"),
        ("await f(a)", "pass"),
        ("a.b = c", "pass"),
        ("return min(a, b)", "return max(a, b)"),
        ("return a[0]", "return a[-1]"),
        ("return a[-1]", "return a[0]"),
        ("return len(a.encode())", "return len(a)"),
    ),
)
def test_breaks_of_a_line_have_the_small_mistake(line: str, broken: str) -> None:
    assert broken in changes(line)


def test_breaks_change_a_default_and_no_text_for_people() -> None:
    assert "async def act(a=4):" in changes("return a", "a=3")
    assert changes("raise ValueError(f'{a + 1}')") == set()


def test_breaks_leave_the_assertion_of_zip_as_it_is() -> None:
    assert changes("return zip(a, b, strict=True)") == {"return zip(b, a, strict=True)"}
    assert "return zip(a, strict=True)" in changes("return zip(a, strict=False)")


def test_breaks_of_one_seed_are_the_same_and_each_changes_its_file() -> None:
    drawn = draw("budget", 40, "1")
    assert drawn
    assert [each.name for each in drawn] == [each.name for each in draw("budget", 40, "1")]
    assert [each.name for each in drawn] != [each.name for each in draw("budget", 40, "2")]
    assert len({(each.file, each.function) for each in drawn}) == len(drawn)
    for each in drawn:
        source = (SOURCE / each.file).read_text()
        compile(text := changed(each), each.file, "exec", dont_inherit=True)
        assert text != source
    assert drawn[0].name not in {each.name for each in draw("budget", 40, "1", [drawn[0].name])}


def test_breaks_that_no_user_sees_are_changes_of_todays_source() -> None:
    for entry in tomllib.loads(EQUIVALENT.read_text()).get("break", []):
        assert entry.keys() == {"function", "change", "why"}
        file = entry["function"].partition(":")[0]
        names = {each.name for each in breaks_in((SOURCE / file).read_text(), file)}
        assert f"{entry['function']}: {entry['change']}" in names


@pytest.mark.long
def test_breaks_name_the_first_test_that_fails() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "breaks.py"), "budget/account.py"]
    options = ["--draw", "3", "--seed", "1", "--tests", "tests/budget"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=280)
    assert "breaks are found" in done.stdout, done.stderr
    assert "tests/budget/" in done.stdout


@pytest.mark.long
def test_break_in_what_a_process_of_its_own_reads_is_come_to() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "breaks.py")]
    options = ["research/reading/office/slides.py", "--draw", "20", "--only", ":read_presentation"]
    done = subprocess.run(
        [*command, *options, "--tests", "tests/research/test_office.py"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert "breaks are found" in done.stdout, done.stderr
    assert "NO TEST COMES" not in done.stdout

"""Sixty tasks on files, each with a right end that is checked and a wrong one that looks like it.

Fifteen of each kind: a *lookup* is answered from one file; a *count* by how many lines a search
gives; in a *misleading* one the first thing that is found answers, and is out of date; an *edit*
mends a function. Each has two ways, the calls and the answer of a worker that does it right and of
one that errs: it looks in the file beside, searches for too little, believes the first result,
mends half. In 15 of the wrong ways an action fails and the worker guesses, and in 5 of the
right ones an action fails and it looks further: so a failed action says something, and not all.

The end is checked on what there is: the answer's text, and that the folder was left as it was; of
an edit, by running its own test file in another process. Equal folders are run once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from moothall import Action
from moothall.agents import file_actions
from moothall.agents.ready.folder import Folder

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Way:
    """What a worker calls, one after the other, and what it answers then."""

    calls: tuple[Call, ...]
    answer: str


@dataclass(frozen=True)
class FileTask:
    """One task, the folder that it is about, and the two ways that it may go."""

    kind: str
    text: str
    files: dict[str, str]
    right: Way
    wrong: Way
    test: str | None = None

    def fill(self, root: Path) -> None:
        """Put the files into a folder, in place of what they have become."""
        for name, text in self.files.items():
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def is_done(self, root: Path, answer: str) -> bool:
        """Whether this answer, and the folder as it is now, are the right end."""
        now = found(root)
        if self.test is not None:
            return passes(self.test, now)
        return answer == self.right.answer and now == tuple(sorted(self.files.items()))


def found(root: Path) -> tuple[tuple[str, str], ...]:
    """Every file that is there now, with its text."""
    paths = (path for path in root.rglob("*") if path.is_file())
    return tuple(sorted((path.relative_to(root).as_posix(), path.read_text()) for path in paths))


@cache
def passes(test: str, files: tuple[tuple[str, str], ...]) -> bool:
    """Whether a test file of these files succeeds, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files:
            (Path(root) / name).write_text(text)
        command = [sys.executable, "-B", "-E", "-S", test]
        ran = subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=False)
        return ran.returncode == 0


def offered(root: Path) -> list[Action]:
    """What a worker may call: to list, read and search files, and to write one."""
    folder = Folder(root)

    def write_file(file_name: str, text: str) -> None:
        """Write a text into a file.

        Args:
            file_name: Name of the file to write
            text: Text to write
        """
        folder.write(file_name, text)

    return [*file_actions(root), Action("write_file", write_file)]


# -- how they are spelled --------------------------------------------------------------------------


def read(name: str) -> Call:
    return "read_file", {"file_name": name}


def search(name: str, term: str) -> Call:
    return "search_in_file", {"file_name": name, "search_term": term}


def write(name: str, text: str) -> Call:
    return "write_file", {"file_name": name, "text": text}


def instruction(call: Call) -> str:
    """A call that looks at files, as one plain instruction."""
    action, args = call
    if action == "read_file":
        return f"Read the file {args['file_name']}"
    return f'Search {args["file_name"]} for "{args["search_term"]}"'


Row = tuple[str, str, tuple[Call, ...], str, tuple[Call, ...], str]


def on(files: dict[str, str], *rows: Row) -> list[FileTask]:
    """Tasks on one folder: kind, text, right calls and answer, wrong calls and answer."""
    return [
        FileTask(kind, text, files, Way(right, answer), Way(wrong, other))
        for kind, text, right, answer, wrong, other in rows
    ]


def mend(
    signature: str, fault: str, bodies: tuple[str, str, str], *claims: str, lost: bool = False
) -> FileTask:
    """An edit of a function of one line: as it is, mended, and mended by half.

    Args:
        signature: the function's
        fault: what is wrong, in words
        bodies: what it returns as it is, what it should, and what it does after the wrong edit
        claims: what its test asserts
        lost: whether a worker that errs looks for a file that is not there first
    """
    name = signature.partition("(")[0]
    file, test = f"{name}.py", f"test_{name}.py"
    now, good, half = (f"def {signature}:\n    return {body}\n" for body in bodies)
    asserts = "".join(f"assert {claim}\n" for claim in claims)
    files = {file: now, test: f"from {name} import {name}\n\n{asserts}"}
    return FileTask(
        "edit",
        f"In {file}, {fault}. Mend it.",
        files,
        Way((read(file), write(file, good)), f"{file} is mended."),
        Way(
            (read(f"tests/{test}") if lost else read(file), write(file, half)), f"{file} is mended."
        ),
        test,
    )


# -- the folders, and what is asked of them --------------------------------------------------------

SHOP = {
    "README.md": "# Shop\n\nThe shop listens on port 8000.\nOrders are kept for 30 days.\n"
    "Questions go to Ines.\n",
    "orders.csv": "id,item,state\n1,lamp,paid\n2,chair,open\n3,lamp,unpaid\n4,desk,paid\n"
    "5,lamp,open\n",
    "people.txt": "Ines left in May.\nTom answers questions now.\nMara does the books.\n",
    "settings.toml": "[server]\nport = 8443\nkeep_days = 90\n[mail]\n"
    'sender = "post@shop.example"\n',
}
LOGS = {
    "NOTES": "The app is at version 1.3.\nDisks fail at times.\nOlga has the night shift.\n",
    "app.log": "08:00 start 1.4\n08:02 error: disk\n08:05 warning: slow\n08:06 error: net\n"
    "08:09 errors over\n08:30 stop\n",
    "old.log": "07:00 start 1.3\n07:10 error: disk\n07:40 stop\n",
    "shifts.txt": "night: Pavel\nday: Olga\nweekend: Rui\n",
}
KNOTS = {
    "README.md": "# knots\n\nIt needs Python 3.8.\nIts license is BSD.\n"
    "A rope has 40 knots at most.\n",
    "pyproject.toml": 'name = "knots"\nversion = "2.1"\nrequires-python = ">=3.11"\n'
    'license = "MIT"\n',
    "src/rope.py": "LIMIT = 64\nSLACK = 3\n\n\ndef tie(rope):\n    pass\n\n\ndef untie(rope):\n"
    "    pass\n\n\ndef _cut(rope):\n    pass\n",
    "tests/test_rope.py": "def test_tie():\n    pass\n\n\ndef test_untie():\n    pass\n",
}
CLUB = {
    "changes.txt": "On Friday we meet in room 7.\nFrom June the fee is 25 euros.\n"
    "Cleo is captain since June.\n",
    "members.csv": "name,joined,team\nAnna,2019,red\nBen,2021,blue\nCleo,2021,red\n"
    "Dan,2023,darkred\n",
    "minutes.txt": "On Friday we meet in room 4.\nThe fee stays at 20 euros.\nAnna is captain.\n",
    "phones.txt": "Anna 555-01\nBen 555-02\nCleo 555-03\n",
}
LAB = {
    "data.csv": "run,value,flag\n1,0.52,ok\n2,0.61,not ok\n3,0.47,ok\n4,0.58,ok\n",
    "log.txt": "Sample A moved to -80 degrees.\nThe trial ends in May now.\nOkoro has the lead.\n",
    "plan.md": "Sample A is kept at -20 degrees.\nThe trial ends in March.\nHale has the lead.\n",
    "tools.txt": "scale: shelf 2\nlamp: shelf 5\npump: repair\n",
}

LOOKUP, COUNT, MISLEADING = "lookup", "count", "misleading"

TASKS = [
    *on(
        SHOP,
        (
            *(LOOKUP, "Who does the books of the shop?"),
            *((search("people.txt", "books"),), "Mara"),
            *((read("staff.txt"),), "Ines"),
        ),
        (
            *(LOOKUP, "From which address does the shop send mail?"),
            *((search("settings.toml", "sender"),), "post@shop.example"),
            *((search("README.md", "Questions"),), "Ines"),
        ),
        (
            *(LOOKUP, "What is the state of order 4?"),
            *((search("orders.csv", "4,"),), "paid"),
            *((read("orders.csv"),), "unpaid"),
        ),
        (
            *(COUNT, "How many orders are paid?"),
            *((search("orders.csv", ",paid"),), "2"),
            *((search("orders.csv", "paid"),), "3"),
        ),
        (
            *(COUNT, "How many orders are of a lamp?"),
            *((search("orders.csv", "lamp"),), "3"),
            *((search("orders.csv", "lamp,paid"),), "1"),
        ),
        (
            *(COUNT, "How many people does people.txt name?"),
            *((search("people.txt", "."),), "3"),
            *((read("people.csv"),), "2"),
        ),
        (
            *(MISLEADING, "On which port does the shop really listen?"),
            *((search("README.md", "port"), search("settings.toml", "port")), "8443"),
            *((search("README.md", "port"),), "8000"),
        ),
        (
            *(MISLEADING, "For how many days are orders really kept?"),
            *((read("settings.ini"), search("settings.toml", "keep")), "90"),
            *((search("README.md", "kept"),), "30"),
        ),
        (
            *(MISLEADING, "Who answers questions today?"),
            *((search("README.md", "Questions"), search("people.txt", "questions")), "Tom"),
            *((search("README.md", "Questions"),), "Ines"),
        ),
    ),
    *on(
        LOGS,
        (
            *(LOOKUP, "At what time did the app stop last?"),
            *((search("app.log", "stop"),), "08:30"),
            *((search("old.log", "stop"),), "07:40"),
        ),
        (
            *(LOOKUP, "Who has the weekend shift?"),
            *((search("shifts.txt", "weekend"),), "Rui"),
            *((read("rota.txt"),), "Olga"),
        ),
        (
            *(LOOKUP, "What does app.log warn of?"),
            *((search("app.log", "warning"),), "slow"),
            *((search("app.log", "disk"),), "disk"),
        ),
        (
            *(COUNT, "How many errors does app.log have?"),
            *((search("app.log", "error:"),), "2"),
            *((search("app.log", "error"),), "3"),
        ),
        (
            *(COUNT, "How many shifts are there?"),
            *((search("shifts.txt", ":"),), "3"),
            *((read("rota.txt"),), "2"),
        ),
        (
            *(COUNT, "How many lines of app.log are from before 08:10?"),
            *((search("app.log", "08:0"),), "5"),
            *((search("app.log", "08:"),), "6"),
        ),
        (
            *(MISLEADING, "Which version of the app started last?"),
            *((search("NOTES", "version"), search("app.log", "start")), "1.4"),
            *((search("NOTES", "version"),), "1.3"),
        ),
        (
            *(MISLEADING, "Who has the night shift, by the list of shifts?"),
            *((read("shifts.csv"), search("shifts.txt", "night")), "Pavel"),
            *((search("NOTES", "night"),), "Olga"),
        ),
        (
            *(MISLEADING, "What was the last error about?"),
            *((search("old.log", "error"), search("app.log", "error:")), "net"),
            *((search("old.log", "error"),), "disk"),
        ),
    ),
    *on(
        KNOTS,
        (
            *(LOOKUP, "How much is SLACK?"),
            *((search("src/rope.py", "SLACK"),), "3"),
            *((search("src/rope.py", "LIMIT"),), "64"),
        ),
        (
            *(LOOKUP, "Which version has knots?"),
            *((search("pyproject.toml", "version"),), "2.1"),
            *((read("VERSION"),), "1.0"),
        ),
        (
            *(LOOKUP, "What is the name of the second test?"),
            *((search("tests/test_rope.py", "def "),), "test_untie"),
            *((search("tests/test_rope.py", "test_tie"),), "test_tie"),
        ),
        (
            *(COUNT, "How many functions does src/rope.py have?"),
            *((search("src/rope.py", "def "),), "3"),
            *((search("src/rope.py", "tie("),), "2"),
        ),
        (
            *(COUNT, "How many tests are there?"),
            *((search("tests/test_rope.py", "def test_"),), "2"),
            *((read("test_rope.py"),), "3"),
        ),
        (
            *(COUNT, "How many constants does src/rope.py have?"),
            *((search("src/rope.py", " = "),), "2"),
            *((search("src/rope.py", "LIMIT"),), "1"),
        ),
        (
            *(MISLEADING, "Which Python does knots require?"),
            *((search("README.md", "Python"), search("pyproject.toml", "python")), "3.11"),
            *((search("README.md", "Python"),), "3.8"),
        ),
        (
            *(MISLEADING, "Which license is knots published under?"),
            *((read("LICENSE"), search("pyproject.toml", "license")), "MIT"),
            *((search("README.md", "license"),), "BSD"),
        ),
        (
            *(MISLEADING, "How many knots does the code allow in a rope?"),
            *((search("README.md", "at most"), search("src/rope.py", "LIMIT")), "64"),
            *((search("README.md", "at most"),), "40"),
        ),
    ),
    *on(
        CLUB,
        (
            *(LOOKUP, "What is Ben's number?"),
            *((search("phones.txt", "Ben"),), "555-02"),
            *((read("members.txt"),), "555-01"),
        ),
        (
            *(LOOKUP, "In which year did Dan join?"),
            *((search("members.csv", "Dan"),), "2023"),
            *((search("members.csv", "Cleo"),), "2021"),
        ),
        (
            *(LOOKUP, "Which team is Ben in?"),
            *((search("members.csv", "Ben"),), "blue"),
            *((search("members.csv", "Anna"),), "red"),
        ),
        (
            *(COUNT, "How many members are in the red team?"),
            *((search("members.csv", ",red"),), "2"),
            *((search("members.csv", "red"),), "3"),
        ),
        (
            *(COUNT, "How many members joined in 2021?"),
            *((search("members.csv", ",2021,"),), "2"),
            *((read("joined.csv"),), "3"),
        ),
        (
            *(COUNT, "How many members are there?"),
            *((search("members.csv", ",20"),), "4"),
            *((search("phones.txt", "555"),), "3"),
        ),
        (
            *(MISLEADING, "In which room is the meeting now?"),
            *((search("minutes.txt", "room"), search("changes.txt", "room")), "7"),
            *((search("minutes.txt", "room"),), "4"),
        ),
        (
            *(MISLEADING, "How many euros is the fee in July?"),
            *((read("fees.txt"), search("changes.txt", "fee")), "25"),
            *((search("minutes.txt", "fee"),), "20"),
        ),
        (
            *(MISLEADING, "Who is captain in July?"),
            *((search("minutes.txt", "captain"), search("changes.txt", "captain")), "Cleo"),
            *((search("minutes.txt", "captain"),), "Anna"),
        ),
    ),
    *on(
        LAB,
        (
            *(LOOKUP, "What is the value of run 3?"),
            *((search("data.csv", "3,0"),), "0.47"),
            *((search("data.csv", "2,0"),), "0.61"),
        ),
        (
            *(LOOKUP, "Where is the lamp?"),
            *((search("tools.txt", "lamp"),), "shelf 5"),
            *((read("shelves.txt"),), "shelf 2"),
        ),
        (
            *(LOOKUP, "Which tool is being repaired?"),
            *((search("tools.txt", "repair"),), "pump"),
            *((search("tools.txt", "scale"),), "scale"),
        ),
        (
            *(COUNT, "How many runs are ok?"),
            *((search("data.csv", ",ok"),), "3"),
            *((search("data.csv", "ok"),), "4"),
        ),
        (
            *(COUNT, "How many tools are on a shelf?"),
            *((search("tools.txt", "shelf"),), "2"),
            *((search("tools.txt", ":"),), "3"),
        ),
        (
            *(COUNT, "How many runs were there?"),
            *((search("data.csv", "0."),), "4"),
            *((read("runs.csv"),), "3"),
        ),
        (
            *(MISLEADING, "At how many degrees is sample A now?"),
            *((search("plan.md", "Sample"), search("log.txt", "Sample")), "-80"),
            *((search("plan.md", "Sample"),), "-20"),
        ),
        (
            *(MISLEADING, "When does the trial end, as things are?"),
            *((read("trial.md"), search("log.txt", "trial")), "May"),
            *((search("plan.md", "trial"),), "March"),
        ),
        (
            *(MISLEADING, "Who has the lead now?"),
            *((search("plan.md", "lead"), search("log.txt", "lead")), "Okoro"),
            *((search("plan.md", "lead"),), "Hale"),
        ),
    ),
    mend(
        "clamp(x, low, high)",
        "numbers above high come out as they are",
        ("max(low, x)", "max(low, min(x, high))", "min(x, high)"),
        *("clamp(5, 0, 3) == 3", "clamp(-1, 0, 3) == 0"),
    ),
    mend(
        "mean(xs)",
        "an empty list fails, and is to give 0",
        ("sum(xs) / len(xs)", "sum(xs) / len(xs) if xs else 0", "sum(xs) // max(len(xs), 1)"),
        *("mean([]) == 0", "mean([1, 2]) == 1.5"),
    ),
    mend(
        "leap(year)",
        "1900 is taken for a leap year",
        (
            "year % 4 == 0",
            "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
            "year % 4 == 0 and year % 100 != 0",
        ),
        *("leap(2024)", "not leap(1900)", "leap(2000)"),
        lost=True,
    ),
    mend(
        "initials(name)",
        "a second space between two names fails",
        (
            '"".join(part[0] for part in name.split(" "))',
            '"".join(part[0] for part in name.split())',
            '"".join(part[0] for part in name.strip().split(" "))',
        ),
        *('initials(" Ada L ") == "AL"', 'initials("Ada  L") == "AL"'),
    ),
    mend(
        "last(xs, n)",
        "the last 0 of a list are all of them",
        ("xs[-n:]", "xs[max(len(xs) - n, 0) :]", "xs[-n:] if n else xs"),
        *("last([1, 2, 3], 2) == [2, 3]", "last([1, 2], 0) == []"),
    ),
    mend(
        "even(n)",
        "odd numbers are found even",
        ("n % 2 != 0", "n % 2 == 0", "n % 4 == 0"),
        *("even(4)", "not even(3)", "even(6)"),
        lost=True,
    ),
    mend(
        "title(text)",
        "the letter after an apostrophe is made a capital",
        (
            "text.title()",
            '" ".join(word.capitalize() for word in text.split())',
            "text.capitalize()",
        ),
        'title("it\'s on") == "It\'s On"',
    ),
    mend(
        "unique(xs)",
        "the order is lost",
        ("list(set(xs))", "list(dict.fromkeys(xs))", "sorted(set(xs))"),
        *("unique([1, 1, 2]) == [1, 2]", "unique([3, 1, 3, 2]) == [3, 1, 2]"),
    ),
    mend(
        "between(x, low, high)",
        "the ends do not belong to it, and should",
        ("low < x < high", "low <= x <= high", "low <= x < high"),
        *("between(0, 0, 2)", "between(2, 0, 2)", "not between(3, 0, 2)"),
        lost=True,
    ),
    mend(
        "seconds(hours, minutes)",
        "the sum is in minutes",
        ("hours * 60 + minutes", "hours * 3600 + minutes * 60", "hours * 3600 + minutes"),
        *("seconds(1, 0) == 3600", "seconds(0, 2) == 120"),
    ),
    mend(
        "extension(name)",
        "of a name with two dots, the middle is given",
        (
            'name.split(".")[1]',
            'name.rpartition(".")[2] if "." in name else ""',
            'name.split(".")[-1]',
        ),
        *('extension("a.tar.gz") == "gz"', 'extension("Makefile") == ""'),
    ),
    mend(
        "vowels(text)",
        "capitals are not counted",
        (
            'sum(letter in "aeiou" for letter in text)',
            'sum(letter in "aeiou" for letter in text.lower())',
            'sum(letter in "aeiouA" for letter in text)',
        ),
        *('vowels("Anna") == 2', 'vowels("OTTO") == 2'),
        lost=True,
    ),
    mend(
        "celsius(fahrenheit)",
        "212 comes out far too high",
        ("fahrenheit - 32 * 5 / 9", "(fahrenheit - 32) * 5 / 9", "(fahrenheit - 32) * 9 / 5"),
        *("celsius(32) == 0", "celsius(212) == 100"),
    ),
    mend(
        "merged(old, new)",
        "old values win, and new ones should",
        ("{**new, **old}", "{**old, **new}", "{**new}"),
        *('merged({"a": 1}, {"a": 2}) == {"a": 2}', 'merged({"b": 1}, {}) == {"b": 1}'),
    ),
    mend(
        "pages(items, size)",
        "the last page is missing when it is not full",
        ("items // size", "-(-items // size)", "items // size + 1"),
        *("pages(11, 5) == 3", "pages(10, 5) == 2"),
        lost=True,
    ),
]

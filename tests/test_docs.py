"""The documentation is a program: its Python runs, what it prints is compared, its commands exist.

A page's blocks share one namespace, in order, in a process of their own in an empty folder.
Comments before a block, which a reader does not see, say more about it:

    <!-- not run: reason -->   the block is a fragment
    <!-- prints -->            a text block is exactly what the Python block before it prints; `...`
                               in it stands for any text
    <!-- a notebook -->      the page is run by tests/test_notebook.py, in which cells await
    <!-- needs a broker -->    the page is run with one: AMQP_PORT says where
    <!-- needs PostgreSQL -->  the page is run with one: DATABASE_URL says where
    <!-- goes on from PAGE -->  the files of that page are there, too

A block with `title="FILE.py"` is a part of that file, which the reader saves: it is not run by
itself, and what follows imports from the file.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import moothall
from commands import OF_DOCUMENTATION
from commands import run as run_program
from moothall.cli.main import command as main
from moothall.models import weights_folder

# The process that starts programs with so much imported is one worker's.
pytestmark = pytest.mark.xdist_group("documentation")

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]))
NOTEBOOK = "<!-- a notebook -->"
SCRIPTS = tuple(page for page in PAGES if NOTEBOOK not in page.read_text())
DEAR = ("town-3.md",)
"""Pages that take long beside others of their kind: `make test-docs` runs them."""
# Programs of others, and two of ours. A block that does not run is a block nobody has checked.
FRAGMENTS_ALLOWED = 5

FENCE = re.compile(
    r'^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)(?: title="(?P<file>[^"]+)")?[^`]*$'
)
EARLIER = re.compile(r"<!-- goes on from (\S+) -->")
COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
# Printed between the blocks of a page, so that each block's own output can be told.
MARK = "\x1e"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comments just above it, its lines and where they start."""

    language: str
    comments: tuple[str, ...]
    lines: tuple[str, ...]
    start: int
    file: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def fragment(self) -> bool:
        return any(comment.startswith("not run:") for comment in self.comments)


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, without the indentation that a list gives them."""
    found: list[Block] = []
    comments: list[str] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if comment := COMMENT.match(line):
            comments.append(comment[1])
        elif fence := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner.strip() == fence["ticks"]:
                    break
                body.append(inner.removeprefix(fence["indent"]))
            else:
                raise AssertionError(f"the block that starts in line {number} has no end")
            at = number + 1
            found.append(Block(fence["language"], tuple(comments), tuple(body), at, fence["file"]))
            comments = []
        elif line.strip():
            comments = []
    return found


def program(found: list[Block]) -> str:
    """A page as a program whose line numbers are the page's own."""
    lines: list[str] = []
    for block in found:
        if block.language == "python" and not block.fragment:
            lines += [""] * (block.start - 1 - len(lines))
            saved = block.file and f"from {block.file.removesuffix('.py')} import *"
            lines += [saved] if saved else block.lines
            lines += [f"print({MARK!r}, end='', flush=True)"]
    return "\n".join(lines) + "\n"


def save(page: Path, folder: Path) -> None:
    """Write the files that a page tells its reader to save, with those of the pages before it."""
    text = page.read_text()
    if earlier := EARLIER.search(text):
        save(page.parent / earlier[1], folder)
    for block in blocks(text):
        if block.file:
            with (folder / block.file).open("a") as file:
                file.write(block.text + "\n\n")


def run(text: str, name: str, folder: Path, **environment: str) -> list[str]:
    """Runs a page, and gives what it should print and does not."""
    found = blocks(text)
    module = f"page_{name}"  # not `mcp`, which a page may import
    (folder / f"{module}.py").write_text(program(found))
    done = run_program(
        module=module,
        options=("-W", "error"),
        imports=OF_DOCUMENTATION,
        cwd=folder,
        env={**os.environ, **environment},
        timeout=300,
    )
    faults = []
    if done.returncode:
        faults.append(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    printed = iter(done.stdout.split(MARK))
    last: str | None = None
    for block in found:
        if block.language == "python":
            last = None if block.fragment else next(printed, "")
        elif "prints" in block.comments:
            if last is None:
                faults.append(f"{name}:{block.start}: no block that runs stands before it")
            elif not doctest.OutputChecker().check_output(block.text, last, doctest.ELLIPSIS):
                faults.append(f"{name}:{block.start}: says\n{block.text}but it prints\n{last}")
    return faults


def commands(found: list[Block]) -> Iterator[str]:
    """The commands that a page tells its reader to type."""
    for block in found:
        if block.language == "console":
            yield from (line[2:] for line in block.lines if line.startswith("$ "))
        elif block.language in {"sh", "bash", "shell"}:
            yield from (line.removeprefix("$ ") for line in block.lines if line.strip())


def wrong_command(line: str) -> str | None:
    """What is wrong with a command line of ours; other programs' are not ours to judge."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words and words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        unknown = {word for word in words[1:] if "=" not in word} - targets
        return f"{line}: no target {', '.join(sorted(unknown))}" if unknown else None
    text = " ".join(words)
    own = re.match(r"(\S*/)?(python3? -m )?moothall(?= |$)", text)
    if not own:
        return None
    command: click.Command = main
    context = click.Context(main, info_name="moothall")
    for word in shlex.split(text[own.end() :]):
        if word in {"|", ">", ">>", "&&", ";"}:
            break
        if word.startswith("-"):
            options = {"--help"}.union(*(p.opts + p.secondary_opts for p in command.params))
            if word.partition("=")[0] not in options:
                return f"{line}: {command.name} has no option {word}"
        elif isinstance(command, click.Group):
            step = command.get_command(context, word)
            if step is None and any(isinstance(each, click.Argument) for each in command.params):
                continue  # such as the id of a run
            if step is None:
                return f"{line}: no command {word}"
            context = click.Context(step, info_name=word, parent=context)
            command = step
    return None


def command_table() -> dict[str, click.Command]:
    """Every command that does something, by the words that call it."""

    def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield path, command
            return
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            step = command.get_command(context, name)
            assert step is not None
            yield from walk(step, f"{path} {name}")

    return dict(walk(main, "moothall"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] * (page.name in DEAR), id=page.name)
        for page in SCRIPTS
    ],
)
@pytest.mark.timeout(180)  # town-3 lives several towns; a machine may have other work
def test_documentation_page_runs(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = page.read_text()
    # What a page keeps in the cache, such as the index of a folder, goes with the test.
    environment = {"MOOTHALL_HOME": str(tmp_path / ".moothall")}
    (tmp_path / ".moothall").mkdir()
    (tmp_path / ".moothall" / "models").symlink_to(weights_folder())
    if "<!-- needs a broker -->" in text:
        environment["AMQP_PORT"] = str(request.getfixturevalue("broker").port)
    if "<!-- needs PostgreSQL -->" in text:
        environment["DATABASE_URL"] = request.getfixturevalue("postgresql").url("docs")
    save(page, tmp_path)
    assert run(text, page.stem, tmp_path, **environment) == []


def test_fragments_in_docs_are_few() -> None:
    fragments = [
        f"{page.name}:{block.start}"
        for page in PAGES
        if page.parent.name != "from"  # the same program in another framework
        for block in blocks(page.read_text())
        if block.language == "python" and block.fragment
    ]
    assert len(fragments) <= FRAGMENTS_ALLOWED, fragments


def test_documentation_shows_commands_that_exist() -> None:
    lines = [line for page in PAGES for line in commands(blocks(page.read_text()))]
    assert lines, "the documentation shows no command"
    assert [fault for line in lines if (fault := wrong_command(line))] == []


def test_commands_all_have_help_and_are_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    table = command_table()
    assert table
    assert [path for path, command in table.items() if not command.get_short_help_str()] == []
    assert [path for path in table if path not in text] == []


def anchors(text: str) -> set[str]:
    """What a link may name in a page: its headings, as GitHub and the site spell them, and ids."""
    for block in blocks(text):
        text = text.replace(block.text, "")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            if re.match(r"\w+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_contents_of_the_site_have_each_page() -> None:
    contents = (ROOT / "mkdocs.yml").read_text()
    pages = [
        page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.name != "README.md"
    ]
    assert [page for page in pages if f": {page}\n" not in contents] == []


def test_docstring_examples_run() -> None:
    (source,) = map(Path, moothall.__path__)
    files = [path for path in sorted(source.rglob("*.py")) if ">>> " in path.read_text()]
    assert files
    wrong = []
    for path in files:
        parts = path.relative_to(source.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        if doctest.testmod(module, optionflags=doctest.ELLIPSIS, report=True).failed:
            wrong.append(module.__name__)
    assert wrong == []


# -- the checks themselves -------------------------------------------------------------------------

GOOD = """
# A page

```python
from __future__ import annotations
x = 1
print("first", x)
```

<!-- prints -->
```text
first 1
```

1. In a list:

   ```python
   print(x + 1)
   ```

   <!-- prints -->

   ```output
   ...
   ```

<!-- not run: the reader has no broker -->
```python
connect(to=nothing)
```
"""


def test_page_check_lets_a_good_page_pass(tmp_path: Path) -> None:
    assert run(GOOD, "page", tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    (
        ("first 1", "first 2", "says\nfirst 2\nbut it prints\nfirst 1"),
        ("print(x + 1)", "print(y)", 'page.py", line 18'),
        ("<!-- not run: the reader has no broker -->", "", "'connect' is not defined"),
        ("import annotations", "import annotations\nimport sys; sys.exit(3)", "ended with 3"),
        ("...", "two", "says\ntwo"),
    ),
)
def test_page_check_catches_a_wrong_page(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert GOOD.count(old) == 1
    faults = run(GOOD.replace(old, new), "page", tmp_path)
    assert faults
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("line", "fault"),
    (
        ("moothall no-such-command", "no command no-such-command"),
        ("moothall --no-such-option", "no option --no-such-option"),
        ("MOOTHALL_OFFLINE=1 .venv/bin/python -m moothall nothing", "no command nothing"),
        ("make no-such-target", "no target no-such-target"),
        ("moothall models fetch --no-such", "no option --no-such"),
        ("moothall models fetch  # the default", None),
        ("moothall --help", None),
        ("make test PYTHON=python3.13", None),
        ("git clone somewhere", None),
    ),
)
def test_commands_are_looked_up(line: str, fault: str | None) -> None:
    assert (fault or "right") in (wrong_command(line) or "right")


def test_install_page_names_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    page = (ROOT / "docs" / "howto" / "install.md").read_text().partition("## Extras")[2]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    # The rest is for those who work on moothall itself.
    assert extras.keys() - named == {"bench", "dev", "docs", "release"}


def test_log_page_names_the_loggers_that_there_are() -> None:
    page = (ROOT / "docs" / "howto" / "log-and-trace.md").read_text().partition("A failure is")[0]
    named = {*re.findall(r"`(moothall\.[a-z.]+)`", page)}
    source = [path.read_text() for path in Path(moothall.__path__[0]).rglob("*.py")]
    loggers = re.findall(r'getLogger\("(moothall\.[a-z.]+)', "\n".join(source))
    assert named == {*loggers}


def test_logger_of_a_file_is_called_as_its_house_or_as_its_folder_or_itself_there() -> None:
    package, misnamed = Path(moothall.__path__[0]), []
    for path in package.rglob("*.py"):
        place = ".".join(("moothall", *path.relative_to(package).with_suffix("").parts))
        if path.is_relative_to(package / "cli"):  # commands show what others log
            continue
        names = re.findall(r'getLogger\("(moothall[a-z.]*)"', path.read_text())
        misnamed += [
            (place, each)
            for each in names
            if "." not in each or not f"{place}.".startswith(f"{each}.")
        ]
    assert misnamed == []


def error_texts() -> set[str]:
    """The texts in the source, with `…` for each value that is put in."""
    found = set()
    for path in Path(moothall.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    each.value if isinstance(each, ast.Constant) else "…" for each in node.values
                ]
                found.add("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.ClassDef):
                found.add(node.name)
    return found


def test_documentation_quotes_errors_of_the_source() -> None:
    page = (ROOT / "docs" / "howto" / "errors.md").read_text().partition("## What never raises")[0]
    quoted = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    source = error_texts()
    python = {"No module named 'moothall'"}  # an interpreter's own
    assert len(quoted) > 30
    unknown = []
    for text in set(quoted) - python:
        longest = max(text.split("…"), key=len)
        parts = re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL)
        found = any(longest in each and parts.search(each) for each in source)
        unknown += [] if found else [text]
    assert unknown == []

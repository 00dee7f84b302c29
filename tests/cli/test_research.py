"""`moothall research` as a person and a program use it: over a folder, and a web on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run
from models.openai_server import HANG, Answer, OpenAIServer, Request, answer, text
from moothall.cli.main import main
from pseudo_terminal import CONTROL_C, Terminal, uncoloured
from research.small_web import evaluation, plan
from research.web_server import Web, html

PORT = "Which port does the alpha protocol use?"
KEY = "How long is the key of beta?"
SEARCH = plan(("search_folder", {"query": "alpha port"}))
ENVIRONMENT = {"MOOTHALL_JOURNAL": "", "MOOTHALL_KEY": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the command is run: two files in `notes`, and the user's cache beside them."""
    notes = tmp_path / "work" / "notes"
    notes.mkdir(parents=True)
    (notes / "alpha.md").write_text(
        "# Alpha\n\nThe alpha protocol was written in 1998 by Ada Stone.\n\n"
        "## Ports\n\nThe alpha protocol uses port 4711.\n"
    )
    (notes / "beta.txt").write_text("The key of beta is 128 bits long.\n")
    return notes.parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**ENVIRONMENT, "XDG_CACHE_HOME": str(folder.parent / "cache"), **more}


def research(*args: str, cwd: Path, command: str = "research") -> subprocess.CompletedProcess[str]:
    """The command as a script runs it."""
    return run(command, *args, cwd=cwd, env={**os.environ, **environment(cwd), "COLUMNS": "200"})


def typed(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that was shown, as a person would copy it."""
    (shown,) = re.findall(r": (moothall .*)", line)
    moothall, command, *args = shlex.split(shown)
    assert moothall == "moothall"
    return research(*args, cwd=cwd, command=command)


class Hanging:
    """Gives texts in turn; the one at a place is kept back until `go`."""

    def __init__(self, *texts: str, at: int) -> None:
        self.texts = texts
        self.at = at
        self.given = 0

    def go(self) -> None:
        self.at = -1

    def __call__(self, request: Request) -> Answer:
        if self.given == self.at:
            return HANG
        self.given += 1
        return text(self.texts[self.given - 1])


@pytest.mark.parametrize("there", (True, False))
def test_cache_that_cannot_be_written_is_refused_with_what_to_set(
    folder: Path, there: bool
) -> None:
    cache = folder.parent / "cache"
    (cache / "moothall" / "folders" if there else cache).mkdir(parents=True)
    done = subprocess.run(
        [
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *(sys.executable, "-m", "moothall", "research", PORT, "--folder", folder / "notes"),
        ],
        env={**os.environ, **environment(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "set XDG_CACHE_HOME" in done.stderr


def test_report_is_printed_and_what_happens_is_shown_beside_it(folder: Path) -> None:
    done = research(PORT, "How are noodles cooked?", "--folder", "notes", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = done.stdout
    assert report.startswith(
        f"# Report\n\n## {PORT}\n\n### Alpha\n\n- “The alpha protocol uses port 4711.” [^1^]"
    )
    assert "Nothing relevant was found for “How are noodles cooked?”." in report
    assert re.search(
        r"\[\^1\^\]: .*<file://.*/notes/alpha\.md#ports>, read \d{4}-\d\d-\d\d", report
    )
    assert "This report is extractive: no model wrote it." in report
    lines = done.stderr.splitlines()
    assert lines[0] == "iteration 1 of 3"
    assert lines[1].startswith("  plan: ")
    assert f'  ✓ search_folder(query="{PORT}")' in lines
    assert not any(each.endswith(("··", "■■")) or "0.00" in each for each in lines)
    assert "done: nothing new was left to find" in done.stderr
    assert "\x1b" not in done.stderr


def test_files_that_cannot_be_read_are_told(folder: Path) -> None:
    (folder / "notes" / "manual.pdf").write_bytes(b"%PDF-1.4 cut off")
    for more in ([], ["--json"]):
        done = research(PORT, "--folder", "notes", *more, cwd=folder)
        assert done.returncode == 0
        assert re.search(
            r"1 file is not read, or not whole: 1 × the PDF is damaged.* \(manual\.pdf\)",
            done.stderr,
        )
    (folder / "notes" / "alpha.md").unlink()
    (folder / "notes" / "beta.txt").unlink()
    done = research(PORT, "--folder", "notes", cwd=folder)
    assert done.returncode == 1
    assert "nothing could be searched or read: folder " in done.stdout
    assert "1 × the PDF is damaged" in done.stdout


def test_output_of_ascii_gets_the_report_too(folder: Path) -> None:
    env = {**os.environ, **environment(folder, PYTHONIOENCODING="ascii")}
    done = run("research", PORT, PORT, "--folder", "notes", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"# {PORT}\n")  # one objective, though given twice
    assert "\\u201cThe alpha protocol uses port 4711.\\u201d [^1^]" in done.stdout


def test_report_and_the_page_are_written_and_are_no_source(folder: Path) -> None:
    order = (PORT, "--folder", ".", "--out", "report.md", "--html", "report.html")
    first = research(*order, cwd=folder)
    report = (folder / "report.md").read_text()
    done = research(*order, cwd=folder)
    assert first.returncode == 0, first.stderr
    assert (folder / "report.md").read_text() == report
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("page: report.html\nreport: report.md\n")
    assert (folder / "report.md").read_text().startswith(f"# {PORT}\n")
    page = (folder / "report.html").read_text()
    assert '<a class="note" href="#passage-1">1</a>' in page
    assert '<li id="passage-1">' in page


def test_report_is_written_in_the_form_that_its_name_says(folder: Path) -> None:
    order = (PORT, "--folder", ".", "--out", "report.docx", "--sources", "list.bib")
    done = research(*order, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("report: report.docx\nsources: list.bib\n")
    with zipfile.ZipFile(folder / "report.docx") as written:
        assert b"uses port 4711" in written.read("word/document.xml")
    assert (folder / "list.bib").read_text().startswith("@misc{")
    done = research(PORT, "--folder", "notes", "--out", "list.JSON", cwd=folder)
    (item,) = json.loads((folder / "list.JSON").read_text())
    assert item["type"] == "document"
    done = research(PORT, "--folder", "notes", "--out", "page.html", cwd=folder)
    assert (folder / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_events_are_lines_of_json_and_the_last_is_the_report(folder: Path) -> None:
    done = research(PORT, "--folder", "notes", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[:2] == ["block_started", "block_ended"]
    assert lines[1]["result"]["tasks"][0]["tool"] == "search_folder"
    assert {"call_started", "call_ended"} < set(kinds)
    assert kinds[-2:] == ["done", "report"]
    report = lines[-1]
    assert report["markdown"].startswith(f"# {PORT}\n")
    number, sentence, passage, *_ = report["citations"][0].values()
    assert (number, sentence) == (1, "“The alpha protocol uses port 4711.”")
    assert "port 4711" in passage["text"]


@pytest.mark.parametrize(
    ("args", "words"),
    (
        ([PORT], "there is nothing to search: give --folder DIR, --search-web or --searxng URL"),
        ([], "Missing argument 'OBJECTIVE...'"),
        ([" ", "--folder", "notes"], "an OBJECTIVE is empty"),
        ([PORT, "--folder", "nowhere"], "--folder: "),
        ([PORT, "--folder", "notes", "--site", "a.org"], "--site is for the web"),
        ([PORT, "--folder", "notes", "--exclude", "a.org"], "--exclude is for the web"),
        ([PORT, "--folder", "notes", "--since", "2024"], "--since is for the web"),
        ([PORT, "--search-web", "--sites", "a.org,b/c"], "--sites: each must be a host such as"),
        ([PORT, "--arxiv", "--since", "May"], "--since must be a day such as 2024-05-01"),
        ([PORT, "--search-web", "--allow-host", ""], "--allow-host: a host is like 'localhost'"),
        ([PORT, "--searxng", "localhost:8888"], "--searxng: only http and https are read"),
        ([PORT, "--search-web", "--site", "http://a.org/"], "--site must be a host such as"),
        ([PORT, "--folder", "notes", "--max-tokens", "9"], "--max-tokens is for a model"),
        ([PORT, "--folder", "notes", "--run-id", "a"], "give --journal too"),
        (
            [PORT, "--folder", "notes", "--out", "no/where.md"],
            "--out: nothing can be written in 'no'",
        ),
        (
            [PORT, "--folder", "notes", "--out", "r", "--html", "./r"],
            "--out and --html must be two files, got 'r' for both",
        ),
        (
            [PORT, "--folder", "notes", "--sources", "list.txt"],
            "--sources must end in .bib or .json, got 'list.txt'",
        ),
        ([PORT, "--folder", "notes", "--model", "nothing"], "there is no model 'nothing'"),
    ),
)
def test_wrong_usage_says_what_to_do(
    folder: Path,
    args: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["research", *args])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    assert words in " ".join(shown.err.split())


def test_model_plans_writes_and_judges(folder: Path) -> None:
    said = "It uses port 4711.[^1^] It was written in 1999.[^1^]"
    verdicts = [
        {"sentence": n, "why": "says it", "passages": [1], "label": label, "probability": 0.9}
        for n, label in ((1, "supported"), (2, "unsupported"))
    ]
    judged = json.dumps({"verdicts": verdicts})
    reached = evaluation({PORT: 0.95}, ("The author of alpha",))
    with OpenAIServer(text(SEARCH), text(said), text(judged), text(reached)) as server:
        done = research(
            PORT, "--folder", "notes", "--model", f"{server.url}#m", "--role", "You are Ada.",
            cwd=folder,
        )  # fmt: skip
        bodies = [request.body for request in server.requests]
    assert done.returncode == 0, done.stderr
    assert "You are Ada." in json.dumps([each["messages"] for each in bodies])
    assert ["response_format" in each for each in bodies] == [True, False, True, True]
    assert "1 sentence marked [unsupported]" in done.stderr
    assert f"\n  {19 * '■'}·  0.95  {PORT}\n  also: The author of alpha\n" in done.stderr
    assert "It was written in 1999. [unsupported]" in done.stdout
    assert "This report is extractive" not in done.stdout
    assert "40 tokens" in done.stderr


@pytest.mark.parametrize("journal", (True, False))
def test_ctrl_c_leaves_the_report_so_far_and_the_command_that_goes_on(
    folder: Path, journal: bool
) -> None:
    first = (SEARCH, "It uses port 4711.[^1^]", evaluation({PORT: 0.5}, remark="Who wrote it?"))
    rest = (
        plan(("search_folder", {"query": "alpha written"})),
        "It uses port 4711.[^1^] Ada Stone wrote the alpha protocol.[^1^]",
        evaluation({PORT: 1.0}),
    )
    recorded = ["--journal", "runs.db", "--run-id", "r1"] if journal else []
    model = Hanging(*first, *rest, at=3)
    with OpenAIServer(model) as server:
        with Terminal(
            "-m", "moothall", "research", PORT, "--folder", "notes", "--model", f"{server.url}#m",
            "--no-judge", "--out", "so far.md", *recorded, columns=200, cwd=folder,
            environment=environment(folder),
        ) as terminal:  # fmt: skip
            terminal.until("iteration 2 of 3, planning")
            terminal.type(CONTROL_C)
            assert terminal.end() == 130
        shown = uncoloured(terminal.raw)
        report = (folder / "so far.md").read_text()
        assert "It uses port 4711.[^1^]" in report
        assert "\n\nIt ended after 1 iteration: it was interrupted.\n" in report
        assert "until then 1 task, " in shown
        if not journal:
            assert "with --journal FILE it would be recorded and could be resumed" in shown
            return
        model.go()
        (line,) = [each for each in shown.splitlines() if "to resume it" in each]
        done = typed(line, folder)
        assert done.returncode == 0, done.stderr
        assert "iteration 1 of 3" not in done.stderr
        assert model.given == 6
    report = (folder / "so far.md").read_text()
    assert "Ada Stone wrote the alpha protocol" in report
    assert "\n\nIt ended after 2 iterations: the targets were reached.\n" in report


def test_time_limit_leaves_the_report_so_far_and_resume_goes_on(folder: Path) -> None:
    in_time = False

    def model(request: Request) -> Answer:
        asked = json.dumps(request.body)
        if "generated_objectives" in asked:
            return text(evaluation({PORT: 1.0}))
        if "search_folder" in asked:
            return text(SEARCH)
        return text("It uses port 4711.[^1^]") if in_time else HANG

    with OpenAIServer(model) as server:
        done = research(
            PORT, "--folder", "notes", "--model", f"{server.url}#m", "--max-seconds", "1.5",
            "--journal", "runs.db", "--run-id", "r1", cwd=folder,
        )  # fmt: skip
        assert done.returncode == 1
        assert "stopped: time limit reached" in done.stderr
        assert "to resume it: moothall resume r1 --journal runs.db" in done.stderr
        assert "It ended after 0 iterations: time limit reached" in done.stdout
        in_time = True
        listed = research("r1", "--journal", "runs.db", command="runs", cwd=folder)
        assert "to resume it: moothall resume r1 --journal runs.db" in listed.stdout
        done = research(
            "r1", "--journal", "runs.db", "--max-seconds", "40", command="resume", cwd=folder
        )
    assert done.returncode == 0, done.stderr
    assert "It uses port 4711.[^1^]" in done.stdout


def test_token_limit_says_to_give_a_higher_one(folder: Path) -> None:
    with OpenAIServer(text(SEARCH)) as server:
        done = research(
            PORT, "--folder", "notes", "--model", f"{server.url}#m", "--max-tokens", "100",
            "--journal", "runs.db", cwd=folder,
        )  # fmt: skip
    assert done.returncode == 1
    assert "stopped: budget limit reached" in done.stderr
    assert re.search(r"higher limit N: moothall resume \w+ --max-tokens N --journal ", done.stderr)


def test_report_that_was_not_written_is_written_when_the_run_is_resumed(folder: Path) -> None:
    files = ("--out", "report.md", "--html", "report.html", "--journal", "runs.db", "--run-id", "r")
    done = research(PORT, "--folder", "notes", *files, cwd=folder)
    assert done.returncode == 0, done.stderr
    report = folder / "report.md"
    written = report.read_text()
    (folder / "report.html").write_text("edited")
    for left in ("that of yesterday", "", written[:40], None):  # as if killed as it wrote it
        report.unlink() if left is None else report.write_text(left)
        if left and left not in written:
            os.utime(report, (0, 0))
        again = research("r", "--journal", "runs.db", "--json", cwd=folder, command="resume")
        assert (again.returncode, report.read_text()) == (0, written)
        assert f"report: {report}" in again.stderr
    assert (folder / "report.html").read_text() == "edited"
    last = json.loads(again.stdout.splitlines()[-1])
    assert (last["kind"], written.startswith(last["markdown"])) == ("report", True)


@pytest.mark.parametrize("more", ([], ["--json"]))
def test_report_that_cannot_be_written_is_printed(folder: Path, more: list[str]) -> None:
    (folder / "report.md").symlink_to("gone/report.md")
    done = research(PORT, "--folder", "notes", "--out", "report.md", *more, cwd=folder)
    assert done.returncode == 1
    assert "The alpha protocol uses port 4711." in done.stdout
    assert "the report 'report.md' cannot be written: No such file or directory" in done.stderr


def test_run_that_has_ended_goes_further_with_more(folder: Path) -> None:
    recorded = ("--folder", "notes", "--journal", "runs.db", "--run-id", "r1")
    first = research(PORT, *recorded, cwd=folder)
    again = research(PORT, *recorded, "--iterations", "8", cwd=folder)  # nothing is left to find
    listed = research("--journal", "runs.db", command="runs", cwd=folder).stdout
    assert "\nr1  done " in listed
    further = research(PORT, KEY, *recorded, "--iterations", "9", cwd=folder)
    assert first.returncode == again.returncode == further.returncode == 0, further.stderr
    assert first.stdout == again.stdout
    assert "plan:" not in again.stderr
    assert "port 4711" in further.stdout
    assert "“The key of beta is 128 bits long.”" in further.stdout
    other = research(PORT, "--folder", ".", *recorded[2:], cwd=folder)
    assert other.returncode == 1
    assert "folder: was " in other.stderr


def test_run_is_listed_and_told_again_in_plain_words(folder: Path) -> None:
    recorded = ("--journal", "runs.db")
    done = research(PORT, "--folder", "notes", *recorded, "--run-id", "r1", cwd=folder)
    listed = research("r1", *recorded, command="runs", cwd=folder).stdout
    assert "moothall research: set up: no model, extractive; " in listed
    assert f'iteration 1, plan: search_folder(query="{PORT}")' in listed
    assert "tool result: search_folder: 1 resource: Alpha" in listed
    assert re.search(r"iteration 1, narrate: \d citations?, 0 sentences unsupported", listed)
    assert re.search(r"iteration 1, evaluate: \d\.\d\d " + re.escape(PORT), listed)
    told, again = (research("r1", *recorded, command="replay", cwd=folder) for _ in range(2))
    assert told.returncode == 0, told.stderr
    assert told.stdout == again.stdout
    assert f'  ✓ search_folder(query="{PORT}")\n    1 read: Alpha\n' in told.stdout
    assert done.stdout.rstrip().replace("  \n", "\n") in told.stdout.replace("  \n", "\n")
    over = research("r1", *recorded, command="resume", cwd=folder)
    assert over.stdout == told.stdout


def searxng(web: Web, *paths: str) -> Callable[[Any], Any]:
    """What a SearXNG answers: pages of a web, by two names of its host."""
    found = [
        {"url": base + path, "title": f"Page {path}", "content": "alpha"}
        for base in (web.base, web.base.replace("127.0.0.1", "localhost"))
        for path in paths
    ]
    return lambda request: answer({"results": found})


def test_web_is_searched_and_read_on_one_site_alone(folder: Path) -> None:
    with Web({}) as web:
        page = "<title>Alpha</title><h1>Alpha</h1><p>The alpha protocol uses port 4711 here.</p>"
        elsewhere = web.base.replace("127.0.0.1", "localhost")
        web.pages |= {
            "/alpha": html(f"<html><body>{page}<a href='{elsewhere}/other'>on</a></body></html>"),
        }
        queries: list[str] = []
        results = searxng(web, "/alpha")

        def search(request: Any) -> Any:
            queries.append(request.path)
            return results(request)

        with OpenAIServer(search) as engine:
            done = research(
                PORT, "--searxng", engine.url.removesuffix("/v1"), "--site", "127.0.0.1",
                "--allow-host", "127.0.0.1", "--allow-host", "localhost", cwd=folder,
            )  # fmt: skip
        hosts = {request.headers.get("host", "").partition(":")[0] for request in web.requests}
    assert done.returncode == 0, done.stderr
    assert "port 4711 here" in done.stdout
    assert queries
    assert [query for query in queries if "+site:127.0.0.1&" not in query] == []
    assert hosts == {"127.0.0.1"}
    assert "localhost" not in done.stderr


def test_research_fails_and_says_why_where_every_search_fails(folder: Path) -> None:
    with Web({}) as web:
        done = research(PORT, "--searxng", web.base, cwd=folder)
    assert done.returncode == 1
    assert "failed: nothing could be searched or read: " in done.stderr
    assert "404" in done.stderr
    assert f"Nothing could be read for “{PORT}”." in done.stdout


def test_terminal_obeys_nothing_that_was_read(folder: Path) -> None:
    (folder / "notes" / "evil\x1b[2J.md").write_text(
        "# \x1b]0;title\x07\n\nThe gamma\x1b[31m protocol uses port 99 \u202egpj.\n"
    )
    command = ("-m", "moothall", "research", "Which port does the gamma protocol use?")
    with Terminal(
        *command, "--folder", "notes", cwd=folder, environment=environment(folder)
    ) as terminal:
        assert terminal.end() == 0
    shown = re.sub(r"\r\x1b\[K", "", uncoloured(terminal.raw))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "port 99" in shown


def test_review_plan_at_the_terminal_changes_the_plan_before_anything_is_read(folder: Path) -> None:
    def model(request: Request) -> Answer:
        asks = str(request.body["messages"])
        told.append(asks)
        if "Plan the next" in asks:
            query = "beta key" if "Ask about beta." in asks else "alpha port"
            return text(plan(("search_folder", {"query": query})))
        cited = "The key of beta is 128 bits long.[^1^]"
        return text(evaluation({KEY: 0.95}) if "Evaluate" in asks else cited)

    told: list[str] = []
    with (
        OpenAIServer(model) as server,
        Terminal(
            *("-m", "moothall", "research", KEY, "--folder", "notes", "--review-plan"),
            *("--model", f"{server.url}#m", "--tone", "brief", "--context-tokens", "9000"),
            *("--step-model", f"evaluate={server.url}#judge"),
            cwd=folder,
            environment=environment(folder),
            columns=200,
        ) as terminal,
    ):
        terminal.until("Begin? ")
        terminal.type("Ask about beta.\r")
        terminal.until("beta key")
        terminal.until("Begin? ")
        terminal.type("\r")
        assert terminal.end() == 0
        assert [each.body["model"] for each in server.requests] == ["m", "m", "m", "judge"]
    assert 'search_folder {"query": "alpha port"}' in uncoloured(terminal.raw)
    assert "Tone: brief." in told[2]


def test_review_plan_refused_at_the_terminal_ends_the_research(folder: Path) -> None:
    with Terminal(
        *("-m", "moothall", "research", PORT, "--folder", "notes", "--review-plan"),
        cwd=folder,
        environment=environment(folder, VISUAL="false"),
    ) as terminal:
        terminal.until("Begin? ")
        terminal.type("e\r")
        terminal.until("Editing failed")
        terminal.until("Begin? ")
        terminal.type("n\r")
        assert terminal.end() == 1
    assert "4711" not in terminal.raw


@pytest.mark.parametrize(
    ("options", "fault"),
    (
        (["--length", "5"], "--length is for a model: give --model too"),
        (["--language", "French"], "--language is for a model"),
        (["--step-model", "plan"], "write plan=MODEL, narrate=MODEL or evaluate=MODEL"),
        (["--model", "local", "--step-model", "read=local"], "there is no step 'read'"),
        (["--model", "local", "--step-model", "plan=nobody"], "--step-model: there is no model"),
        (["--review-plan"], "--review-plan asks you: it needs a terminal, and no --json"),
    ),
)
def test_option_of_a_model_that_is_wrong_is_told_before_anything_begins(
    folder: Path, options: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["research", PORT, "--folder", str(folder / "notes"), *options])
    assert ended.value.code == 2
    assert fault in capsys.readouterr().err

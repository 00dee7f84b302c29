"""`moothall waiting`, `answer` and `approvals`: what runs wait for, answered by command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import journal_programs
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Context,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    Waiting,
)


def moothall(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder with a journal."""
    return journal_programs.moothall(*args, cwd=cwd, MOOTHALL_JOURNAL="runs.db")


PAID: list[int] = []


def clerk(journal: Journal) -> ReActAgent:
    def pay(coins: int) -> str:
        """Pay."""
        PAID.append(coins)
        return f"paid {coins}"

    def batch() -> Later:
        """Send a batch."""
        return Later("batch-1")

    facts = {"danger": "low"}
    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED, facts=facts)
    calls: list[Any] = [{"name": "pay", "args": {"coins": each}} for each in (3, 4)]
    script = [[*calls, {"name": "batch"}], "Done."]
    return ReActAgent(
        "clerk", ScriptedModel(script), actions=[asked, batch], journal=journal, approver=Waiting()
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a journal in which a run waits for two approvals and a result."""
    PAID.clear()
    with Journal(tmp_path / "runs.db") as journal:
        assert clerk(journal).reply_sync("Go.", run_id="r").stop_reason == "waiting"
    return tmp_path


def test_resumed_run_that_waits_on_says_where_to_see_for_what(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from moothall import Later, ReActAgent, ScriptedModel\n"
        "def sign():\n    'Have it signed.'\n    return Later('signature')\n"
        "model = ScriptedModel([{'name': 'sign'}, 'Signed.'])\n"
        "clerk = ReActAgent('clerk', model, actions=[sign], journal='runs.db')\n"
        "if __name__ == '__main__': clerk.reply_sync('Sign.', run_id='s')\n"
    )
    subprocess.run([sys.executable, "mine.py"], cwd=folder, check=True)
    resumed = moothall("resume", "s", "--agent", "mine:clerk", cwd=folder)
    assert resumed.returncode == 1
    assert "to see for what: moothall waiting\n" in resumed.stderr
    assert "to resume it" not in resumed.stderr
    moothall("answer", "s", "signature", "eva", cwd=folder)
    resumed = moothall("resume", "s", "--agent", "mine:clerk", cwd=folder)
    assert (resumed.returncode, "Signed." in resumed.stdout) == (0, True)


def test_answer_given_twice_by_command_is_read_as_the_first_time(tmp_path: Path) -> None:
    async def order(context: Context[Any]) -> str:
        """Order."""
        return f"ordered {await context.ask_person('How many?')!r}"

    def agent(journal: Journal) -> ReActAgent:
        model = ScriptedModel([{"name": "order"}, "Done."])
        return ReActAgent("a", model, actions=[order], journal=journal, approver=Waiting())

    with Journal(tmp_path / "runs.db") as journal:
        agent(journal).reply_sync("Go.", run_id="r")
        (wait,) = journal.waiting("r")
        for outcome in ("answered: ", "kept until the run asks for it, or known already: "):
            answered = moothall("answer", "r", wait.key, "42", cwd=tmp_path)
            assert (answered.returncode, answered.stderr) == (0, "")
            assert answered.stdout.startswith(outcome)
        assert "and not with" in moothall("answer", "r", wait.key, "43", cwd=tmp_path).stderr
        assert (
            agent(journal).reply_sync("Go.", run_id="r").steps[0].result["result"] == "ordered '42'"
        )


def test_approvals_are_listed_shown_permitted_and_refused_with_a_name(folder: Path) -> None:
    listed = moothall("waiting", "--people", cwd=folder).stdout
    assert "the approval of pay(coins=3) (danger: low), since" in listed
    found = json.loads(moothall("waiting", "--people", "--json", cwd=folder).stdout)["waiting"]
    three, four = sorted(found, key=lambda each: each["args"]["coins"])
    shown = moothall("waiting", "show", three["key"][:12], cwd=folder).stdout
    assert "coins = 3" in shown
    assert f"\n  moothall waiting permit {three['key'][:12]}, or refuse " in listed
    assert {*listed.splitlines()} < {*moothall("waiting", cwd=folder).stdout.splitlines()}
    why = ("--as", "eva", "--reason", "checked by phone")
    permitted = moothall("waiting", "permit", three["key"][:12], *why, cwd=folder)
    assert permitted.stdout.startswith("permitted: the approval of pay(coins=3)")
    assert permitted.stdout.endswith("\nto see for what: moothall waiting\n")  # it waits for more
    again = moothall("waiting", "permit", three["key"], *why[2:], "--as", "bo", cwd=folder)
    assert "\neva had answered so before\n" in again.stdout
    # What waits is named by its run, too, if it is the only one.
    refused = moothall("waiting", "refuse", "r", "--as", "bo", "--reason", "too much", cwd=folder)
    assert "pay(coins=4)" in refused.stdout
    assert refused.stdout.startswith("refused: ")
    again = moothall("waiting", "permit", four["key"], cwd=folder)
    assert (again.returncode, "was answered by bo" in again.stderr) == (1, True)
    assert moothall("waiting", "--people", cwd=folder).stdout == "Nothing waits for a person.\n"
    assert "batch-1" in moothall("waiting", cwd=folder).stdout
    answered = moothall("answer", "r", "batch-1", '{"rows": 2}', cwd=folder).stdout
    on = "answered: the program of its agent goes on with it; or here: moothall resume r --agent "
    assert on in answered
    assert on in moothall("runs", "r", cwd=folder).stdout
    with Journal(folder / "runs.db") as journal:
        reply = clerk(journal).reply_sync("Go.", run_id="r")
        told = [each["content"] for each in reply.messages if each["role"] == "tool"]
    assert told == ["paid 3", '{"error": "\\"pay\\" not permitted: too much"}', '{"rows": 2}']
    assert PAID == [3]
    assert "waiting" not in moothall("runs", "--decided-by", "eva", cwd=folder).stdout
    assert "\nr   " in moothall("runs", "--decided-by", "eva", cwd=folder).stdout
    assert "no such runs" in moothall("runs", "--decided-by", "mallory", cwd=folder).stdout
    recorded = moothall("runs", "r", cwd=folder).stdout
    assert 'was answered by eva: {"permitted": "checked by phone"}' in recorded
    assert "permitted by eva: pay(coins=3)\n" in recorded


def test_approval_for_the_run_permits_its_later_calls_of_the_action_too(folder: Path) -> None:
    with Journal(folder / "runs.db") as journal:
        first, second = (each.key for each in journal.waiting(kind="approval"))
        wrong = moothall("waiting", "permit", first, "--for", "ever", cwd=folder)
        assert (wrong.returncode, "'ever' is not 'run'" in wrong.stderr) == (2, True)
        permitted = moothall("waiting", "permit", first, "--for", "run", cwd=folder)
        assert permitted.returncode == 0, permitted.stderr
        assert moothall("waiting", "permit", second, cwd=folder).returncode == 0
        assert moothall("answer", "r", "batch-1", "1", cwd=folder).returncode == 0
        agent = clerk(journal)
        agent.model = ScriptedModel(["", {"name": "pay", "args": {"coins": 5}}, "Done."])
        assert agent.reply_sync("Go.", run_id="r").text == "Done."
    assert sorted(PAID) == [3, 4, 5]


def test_approvals_name_the_journal_that_stands_before_the_subcommand(folder: Path) -> None:
    with Journal(folder / "other.db"):
        pass
    with Journal(folder / "runs.db") as journal:
        first, second = (each.key for each in journal.waiting(kind="approval"))
        journal.answer("r", second, True)
        journal.answer("r", "batch-1", 1)
    args = ("waiting", "--journal", "runs.db", "permit", first)
    done = journal_programs.moothall(*args, cwd=folder, MOOTHALL_JOURNAL="other.db")
    assert done.returncode == 0, done.stderr
    assert "moothall resume r --journal runs.db --agent MODULE:AGENT" in done.stdout


def test_approvals_name_a_journal_whose_path_has_any_characters_as_a_shell_takes_it(
    folder: Path,
) -> None:
    (folder / "runs.db").rename(folder / "a\nb's \\.db")
    shown = moothall("waiting", "--people", "--journal", "a\nb's \\.db", cwd=folder).stdout
    command = re.search(r"permit \w+( --journal .*), or refuse", shown)
    assert command is not None, shown
    words = subprocess.run(
        ["bash", "-c", f"printf '%s|' {command[1]}"], capture_output=True, text=True, check=True
    )
    assert words.stdout == "--journal|a\nb's \\.db|"


def test_waiting_shows_commands_that_work_as_they_stand(tmp_path: Path) -> None:
    async def order(context: Context[Any]) -> str:
        """Order."""
        return await context.ask_person("How many?")

    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(tmp_path / "runs.db") as journal:
        model = ScriptedModel([[{"name": "pay"}, {"name": "order"}], {"name": "end"}])
        actions = [pay, Action("order", order)]
        person = Waiting(who=["Eva B", "bo"])
        agent = ReActAgent("clerk", model, actions=actions, journal=journal, approver=person)
        agent.actions.register(
            Action("end", lambda: crash(journal.path, tmp_path / "end.db"), "End.")
        )
        agent.reply_sync("Go.", run_id="r")
        shown = moothall("waiting", cwd=tmp_path).stdout
        for command in re.findall(r"  (moothall .*?)(?:, or .*)?$", shown, re.MULTILINE):
            words = shlex.split(command.replace("VALUE", "three"))[1:]
            answered = moothall(*words, cwd=tmp_path)
            assert answered.returncode == 0, (command, answered.stderr)
        assert {each.by for each in journal.waits.decided()} == {"Eva B"}
        asyncio.run(agent.resume_decided())
    shown = moothall("waiting", "--journal", "end.db", cwd=tmp_path).stdout
    rest = "--journal end.db"
    assert f"""answer r doubt:2.0 repeat {rest}, or skip, or '{{"done": RESULT}}'""" in shown


def test_answer_again_and_a_wrong_key_fail_with_what_is_wrong(folder: Path) -> None:
    with Journal(folder / "runs.db") as journal:
        key = journal.waiting(kind="approval")[0].key
    half = moothall("answer", "r", "batch-1", '{"rows": 2', cwd=folder)
    assert (half.returncode, "VALUE is no JSON, but begins so" in half.stderr) == (2, True)
    twice = moothall("answer", "r", "batch-1", '{"rows": 2, "rows": 3}', cwd=folder)
    assert (twice.returncode, "a key appears twice" in twice.stderr) == (2, True)
    assert moothall("answer", "r", "batch-1", "1", "--as", "eva", cwd=folder).returncode == 0
    assert moothall("answer", "r", "batch-1", "1", cwd=folder).returncode == 0
    other = moothall("answer", "r", "batch-1", "2", cwd=folder)
    assert (other.returncode, "was answered by eva" in other.stderr) == (1, True)
    forged = moothall("answer", "r", "f" * 64, "true", cwd=folder)
    assert (forged.returncode, "waits for nothing under the key" in forged.stderr) == (1, True)
    wrong = moothall("waiting", "--kind", "tea", cwd=folder)
    assert (wrong.returncode, "kind= must be approval" in wrong.stderr) == (2, True)
    reason = moothall("answer", "r", key, '{"permitted": "yes", "always": true}', cwd=folder)
    assert (reason.returncode, "must be True, False, " in reason.stderr) == (2, True)
    changed = moothall("waiting", "permit", "a", "--args", "3", cwd=folder)
    assert (changed.returncode, "--args must be a JSON object" in changed.stderr) == (2, True)


def test_answer_takes_the_key_of_an_approval_as_it_is_listed(folder: Path) -> None:
    waits = json.loads(moothall("waiting", "--people", "--json", cwd=folder).stdout)["waiting"]
    (three,) = (each["key"] for each in waits if each["args"] == {"coins": 3})
    assert f"r  {three[:12]}\n" in moothall("waiting", cwd=folder).stdout
    done = moothall("answer", "r", three[:12], "true", cwd=folder)
    assert (done.returncode, f"answered: {three} of run r" in done.stdout) == (0, True)
    assert "coins=3" not in moothall("waiting", cwd=folder).stdout


def test_answer_without_a_value_answers_a_moment_alone(folder: Path) -> None:
    forgotten = moothall("answer", "r", "batch-1", cwd=folder)
    assert (forgotten.returncode, "VALUE is missing" in forgotten.stderr) == (2, True)
    assert "batch-1" in moothall("waiting", cwd=folder).stdout
    assert moothall("answer", "r", "batch-1", "null", cwd=folder).returncode == 0


@pytest.mark.parametrize("asks", ("approval", "question"))
def test_waiting_approvals_and_runs_list_a_run_that_a_program_asks_about_itself(
    tmp_path: Path, asks: str
) -> None:
    listed: dict[str, str] = {}

    def ask(_: object) -> Any:
        for command in (("waiting",), ("waiting", "--people"), ("runs", "--needs-me")):
            listed[" ".join(command)] = moothall(*command, cwd=tmp_path).stdout
            more = json.loads(moothall(*command, "--json", cwd=tmp_path).stdout)
            if command[0] != "runs":
                assert [each["run"] for each in more["asking"]] == ["r"]
        return True

    class Person:
        def approve(self, request: object) -> bool:
            return bool(ask(request))

        def answer(self, question: object) -> str:
            return str(ask(question))

    async def wonder(context: Context[Any]) -> str:
        """Wonder."""
        return await context.ask_person("Why?")

    pay = Action("approval", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(tmp_path / "runs.db") as journal:
        model = ScriptedModel([{"name": asks}, "Done."])
        actions = [pay, Action("question", wonder)]
        agent = ReActAgent("clerk", model, actions=actions, journal=journal, approver=Person())
        assert agent.reply_sync("Go.", run_id="r").text == "Done."
    assert "\nr   waiting" in listed["runs --needs-me"]
    assert f"clerk asks a person in process {os.getpid()} on " in listed["waiting"]
    assert f"clerk asks a person in process {os.getpid()} on " in listed["waiting --people"]
    assert moothall("waiting", cwd=tmp_path).stdout == "Nothing waits.\n"


def test_waiting_lists_a_run_that_was_cut_off(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("clerk", ScriptedModel([{"name": "look"}, "Done."]), journal=journal)
        agent.actions.register(
            Action(
                "look",
                lambda: crash(journal.path, tmp_path / "crashed.db"),
                "Look.",
                idempotent=True,
            )
        )
        agent.reply_sync("Go.", run_id="r 1")
    waiting = moothall("waiting", "--journal", "crashed.db", cwd=tmp_path).stdout
    assert waiting.startswith("r 1\n  clerk was cut off")
    assert "`moothall resume 'r 1' --journal crashed.db`" in waiting
    needs_me = moothall("runs", "--needs-me", "--journal", "crashed.db", cwd=tmp_path).stdout
    assert "\nr 1  stopped" in needs_me
    assert needs_me.endswith("\n1 of them needs you: moothall waiting --journal crashed.db\n")


@pytest.mark.parametrize("by", ("answer", "resume r --force"))
def test_waiting_approvals_and_runs_list_a_permitted_run_whose_program_has_changed(
    folder: Path, by: str
) -> None:
    with Journal(folder / "runs.db") as journal:
        for wait in journal.waiting():
            journal.answer(wait.run, wait.key, True)
        changed = clerk(journal)
        changed.system_prompt = "Be polite."
        asyncio.run(changed.resume_decided())
    for options in ((), ("--people",)):
        listed = moothall("waiting", *options, cwd=folder).stdout
        assert listed.startswith("r  operator:program\n  clerk waits for a decision: ")
        assert "restore it, answer 'fork' to have it go on" in listed
        assert listed.endswith("  moothall answer r operator:program fork, or cancel\n")
    assert "\nr   mismatch" in moothall("runs", "--needs-me", cwd=folder).stdout
    assert "1 run of another program: r" in moothall("doctor", cwd=folder).stdout
    shown = moothall("runs", "r", cwd=folder).stdout
    assert "  waiting for its operator: its program has changed; ReActAgent clerk" in shown
    assert shown.endswith("to see for what: moothall waiting\n")
    if by == "answer":
        assert moothall("answer", "r", "operator:program", "fork", cwd=folder).returncode == 0
    else:
        assert "goes on with it within seconds" in moothall(*by.split(), cwd=folder).stdout
    assert moothall("waiting", cwd=folder).stdout == "Nothing waits.\n"
    with Journal(folder / "runs.db") as journal:
        changed = clerk(journal)
        changed.system_prompt = "Be polite."
        asyncio.run(changed.resume_decided())
        assert {(each.run, each.kind) for each in journal.waiting()} == {("r", "approval")}


def test_waiting_lists_a_firing_that_nobody_has_begun(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from moothall import Agent, action\n"
        "class Stock(Agent):\n    @action\n    async def count(self) -> int:\n        return 1\n"
    )
    (tmp_path / "company.yaml").write_text(
        "journal: runs.db\nagents:\n  Stock: {ref: 'shop.py:Stock'}\n"
        "schedules:\n  count: {every: 10m, to: Stock, action: count}\n"
    )
    fired = moothall("schedules", "fire", "company.yaml", "count", cwd=tmp_path)
    assert fired.returncode == 0, fired.stderr
    waiting = moothall("waiting", cwd=tmp_path).stdout
    assert waiting == f"{fired.stdout.strip()}\n  count has not begun:\n  its program begins it\n"


def test_runs_needs_me_leaves_out_what_is_answered(folder: Path) -> None:
    assert "1 of them needs you" in moothall("runs", cwd=folder).stdout
    with Journal(folder / "runs.db") as journal:
        for wait in journal.waiting():
            journal.answer(wait.run, wait.key, True)
    assert moothall("runs", "--needs-me", cwd=folder).stdout == "There are no such runs.\n"
    assert "needs you" not in moothall("runs", cwd=folder).stdout


def test_resume_of_a_run_that_waits_says_for_what_and_afterwards_who_goes_on_with_it(
    folder: Path,
) -> None:
    early = moothall("resume", "r", cwd=folder)
    assert early.returncode == 1
    ends = ": answer that, or cancel the run"
    for text in ("run 'r' waits for the ", "pay(coins=3)", "pay(coins=4)", "batch-1", ends):
        assert text in early.stderr
    with Journal(folder / "runs.db") as journal:
        for wait in journal.waiting("r"):
            journal.answer("r", wait.key, True)
    answered = moothall("resume", "r", cwd=folder)
    assert (answered.returncode, answered.stderr) == (0, "")
    assert "the process that serves agent clerk goes on with it" in answered.stdout


def test_runs_cancel_ends_a_run_that_waits_in_the_name_of_who_did_it(folder: Path) -> None:
    cancelled = moothall("runs", "cancel", "r", "--as", "eva", cwd=folder)
    assert (cancelled.stdout, cancelled.stderr) == ("run r is cancelled\n", "")
    assert "Nothing waits." in moothall("waiting", cwd=folder).stdout
    shown = moothall("runs", "r", cwd=folder).stdout
    (line,) = [each for each in shown.splitlines() if each.startswith("  cancelled: ")]
    assert line.startswith("  cancelled: eva cancelled it while waiting for ")
    assert " the approval of pay(coins=3) " in line
    assert moothall("runs", "cancel", "r", cwd=folder).returncode == 0
    with Journal(folder / "runs.db") as journal:
        ReActAgent("clerk", ScriptedModel(["Done."]), journal=journal).reply_sync(
            "Go.", run_id="done"
        )
    over = moothall("runs", "cancel", "d", cwd=folder)  # the beginning of an id is enough
    assert (over.returncode, over.stderr) == (2, "moothall: run 'done' has ended: it is done\n")

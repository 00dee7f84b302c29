"""`moothall resume`: runs that were killed, interrupted or stopped, resumed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import (
    COMMAND,
    JOURNAL,
    MOMENT_S,
    SEARCH,
    THREE,
    WRITE,
    at_terminal,
    does,
    killed_in_a_command,
    killed_program,
    moothall,
)
from journal.crash import crash
from models.openai_server import HANG, OpenAIServer, status, streamed
from moothall import InDoubt, Journal, ReActAgent, ScriptedModel
from moothall.build import StepHandle, recorded
from moothall.studio.orders.order import ActOrder, record_order
from pseudo_terminal import CONTROL_C


def act(server: OpenAIServer, *options: str) -> tuple[str, ...]:
    return ("act", "Do it", "--model", f"{server.url}#m", "--run-id", "r", *options)


def suggested(output: str) -> list[str]:
    """The arguments of the last command that was suggested."""
    words = shlex.split(output.splitlines()[-1].partition(": ")[2])
    assert words[0] == "moothall"
    return words[1:]


def decides(action: str, instruction: str = "") -> Any:
    return streamed(
        json.dumps({"action": action, "new_instruction": instruction, "reasoning": "so"})
    )


# -- in doubt --------------------------------------------------------------------------------------


def test_resume_in_doubt_says_which_calls_and_what_to_do(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), does(COMMAND)) as server:
        killed_in_a_command(server, folder)
        done = moothall("resume", "r", cwd=folder)
        again = moothall(*act(server), cwd=folder)
        assert len(server.requests) == 2
    assert (done.returncode, done.stdout) == (1, "")
    first, _, called, _, *ways = done.stderr.splitlines()
    assert first == "moothall: run r cannot be resumed before you decide"
    assert called == f"  1  run_command(command={json.dumps(COMMAND[1]['command'])})"
    assert ways == [
        "  to run it again and resume:    moothall resume r --repeat",
        "  to skip it and resume:         moothall resume r --skip",
        "  to give its result and resume: moothall resume r --done 1=RESULT",
    ]
    assert (again.returncode, again.stderr) == (1, done.stderr)
    assert (folder / "log.txt").read_text() == "ran\n"


def test_interrupted_in_a_command_it_names_the_ways_to_decide(folder: Path) -> None:
    os.mkfifo(folder / "alive")
    command = ("run_command", {"command": "echo ran >>log.txt; echo begun >alive; sleep 300"})
    with OpenAIServer(does(command), streamed("Well.")) as server:
        with at_terminal(*act(server), cwd=folder) as terminal:
            terminal.until("Permit this? [y/N/always/run/never] ")
            terminal.type("y\n")
            assert (folder / "alive").read_text() == "begun\n"
            terminal.type(CONTROL_C)
            assert terminal.end() == 130
        ways = [line for line in terminal.seen.splitlines() if "and resume: moothall" in line]
        assert [line.partition(" r --")[2] for line in ways] == ["repeat", "skip", "done 1=RESULT"]
        assert moothall("runs", "--needs-me", cwd=folder).stdout.splitlines()[1].split()[0] == "r"
        assert (
            "permitted by the person at the terminal: run_command("
            in moothall("runs", "r", cwd=folder).stdout
        )
        done = moothall("resume", "r", "--skip", cwd=folder)
    assert (done.returncode, (folder / "log.txt").read_text()) == (0, "ran\n")
    assert "Well.\n" in done.stdout


def test_resume_in_doubt_for_programs(folder: Path) -> None:
    with OpenAIServer(does(COMMAND)) as server:
        killed_in_a_command(server, folder)
    done = moothall("resume", "r", "--journal", JOURNAL, "--json", cwd=folder)
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert (said["kind"], said["run_id"]) == ("in_doubt", "r")
    assert [(each["action"], each["args"]) for each in said["actions"]] == [COMMAND]
    assert said["resume"] == [
        f"moothall resume r --repeat --journal {JOURNAL}",
        f"moothall resume r --skip --journal {JOURNAL}",
        f"moothall resume r --done 1=RESULT --journal {JOURNAL}",
    ]


SKIPPED = (
    "  ✗ skipped: the run was cut off while it was executed, and a person has decided not to "
    "execute it again; whether it had an effect is not known"
)


@pytest.mark.parametrize(
    ("option", "ran", "heard"),
    (("--repeat", 2, "over"), ("--skip", 1, "a person has decided not to execute it again")),
)
def test_command_that_was_killed_is_repeated_or_skipped(
    folder: Path, option: str, ran: int, heard: str
) -> None:
    with OpenAIServer(does(SEARCH), does(COMMAND), streamed("Well.")) as server:
        killed_in_a_command(server, folder)
        done = moothall("resume", "r", option, cwd=folder)
        assert len(server.requests) == 3  # what had been answered is not asked again
        assert heard in server.requests[2].body["messages"][-1]["content"]
    assert done.returncode == 0, done.stderr
    called = f"run_command(command={json.dumps(COMMAND[1]['command'])})"
    words = "is run again" if ran == 2 else "is skipped"
    assert done.stderr == f"{called} {words}\n"
    shown = done.stdout.splitlines()
    assert shown[0] == f"run r, recorded in {JOURNAL}"
    assert shown[1] == f"Do it ({server.url}#m in {folder})"
    assert shown[2:6] == [
        "until now:",
        '→ search_in_file(file_name="notes.txt", search_term="milk")',
        "  line 2: milk, oat",
        f"→ {called}",
    ]
    assert shown[6:-1] == [
        "from here on:",
        *([f"→ {called}", "  over"] if ran == 2 else [SKIPPED]),
        "Well.",
        "",
        "done: the model has answered",
    ]
    assert (folder / "log.txt").read_text() == "ran\n" * ran


def test_resume_repeated_call_asks_only_for_the_new_call(folder: Path) -> None:
    with OpenAIServer(does(COMMAND), does(WRITE), streamed("Well.")) as server:
        killed_in_a_command(server, folder)
        with at_terminal("resume", "r", "--repeat", cwd=folder) as terminal:
            # First the step, then the question about it.
            shown = terminal.until("Permit this? [y/N/always/run/never] ")
            assert shown.index("→ write_file") < shown.index("files proposes: /files.write_file")
            assert shown.count("proposes") == 1
            terminal.type("y\n")
            assert terminal.end() == 0
    assert (folder / "new.txt").read_text() == "hello\n"


def test_review_that_was_killed_goes_on(folder: Path) -> None:
    works = (does(COMMAND), streamed("Done."), streamed("Really."))
    reviews = (decides("CONTINUE", "Look again"), decides("TERMINATE"))
    with OpenAIServer(*works) as worker, OpenAIServer(*reviews) as reviewer:
        killed_in_a_command(worker, folder, "--review", f"{reviewer.url}#h")
        asks = moothall("resume", "r", cwd=folder)
        done = moothall("resume", "r", "--repeat", cwd=folder)
        assert (len(worker.requests), len(reviewer.requests)) == (3, 2)
    assert "(R1/files)" in asks.stderr
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-8:-1] == [
        "  over",
        "Done.",
        "the review asks for more: Look again",
        "Really.",
        "the review accepts: so",
        "",
        "done: the review accepted it",
    ]
    assert (folder / "log.txt").read_text() == "ran\nran\n"


def test_review_by_a_person_that_was_killed_asks_again(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Line 1."), streamed("Line 2.")) as server:
        with at_terminal(*act(server, "--review", "me"), cwd=folder) as terminal:
            terminal.until("you> ")
            terminal.process.kill()
            terminal.process.wait()
        nobody = moothall("resume", "r", cwd=folder)
        with at_terminal("resume", "r", cwd=folder) as terminal:
            shown = terminal.until("you> ")
            assert "  Line 1.\r\n" in shown
            assert "until now" not in shown  # of which nothing is shown but the question
            terminal.type("r Look again.\n")
            assert "  Line 2.\r\n" in terminal.until("you> ")
            terminal.type("a\n")
            assert terminal.end() == 0
        assert len(server.requests) == 3
    assert (nobody.returncode, "standard input is not a terminal" in nobody.stderr) == (2, True)


# -- stopped, interrupted, or killed where nothing is in doubt -------------------------------------


def test_killed_while_the_model_answers(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), HANG, streamed("Well.")) as server:
        with at_terminal(*act(server), cwd=folder) as terminal:
            server.wait_for_request()
            server.wait_for_request()
            terminal.process.kill()
            terminal.process.wait()
        done = moothall("resume", "r", cwd=folder)
        # It is asked the same once more.
        assert server.requests[1].body["messages"] == server.requests[2].body["messages"]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("→ search_in_file") == 1


def test_interrupted_it_names_the_command_that_goes_on(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), HANG, HANG, streamed("Well.")) as server:
        command: tuple[str, ...] = act(server, "--journal", "../my runs.db")
        for _ in range(2):  # the second time, in `resume` itself
            with at_terminal(*command, cwd=folder) as terminal:
                server.wait_for_request()
                if command[0] == "act":
                    server.wait_for_request()
                terminal.type(CONTROL_C)
                assert terminal.end() == 130
            line = next(line for line in terminal.seen.splitlines() if "to resume" in line)
            assert line == "to resume it: moothall resume r --journal '../my runs.db'"
            command = tuple(suggested(line))
        done = moothall(*command, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Well.\n" in done.stdout


@pytest.mark.parametrize(
    ("answers", "options", "more"),
    (
        ((does(SEARCH), HANG), ("--max-seconds", MOMENT_S), ()),
        ((does(SEARCH), status(401, "no such key")), (), ()),
        pytest.param(
            (does(SEARCH), HANG),
            ("--max-seconds", MOMENT_S, "--review", "{url}#h"),
            (),
            marks=pytest.mark.long,
        ),
    ),
    ids=("seconds", "error", "review"),
)
def test_run_that_was_stopped_goes_on_by_the_command_that_it_named(
    folder: Path, answers: tuple[Any, ...], options: tuple[str, ...], more: tuple[str, ...]
) -> None:
    with OpenAIServer(*answers, streamed("Well."), decides("TERMINATE")) as server:
        options = tuple(option.format(url=server.url) for option in options)
        stopped = moothall(*act(server, *options), cwd=folder)
        assert stopped.returncode == 1
        done = moothall(*suggested(stopped.stderr), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Well.\n" in done.stdout


def test_run_that_had_too_few_tokens_is_given_more(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        stopped = moothall(*act(server, "--max-tokens", "10"), cwd=folder)
        command = suggested(stopped.stderr)
        assert command == ["resume", "r", "--max-tokens", "N"]
        assert suggested(moothall("runs", "r", cwd=folder).stdout) == command
        assert moothall("resume", "r", cwd=folder).returncode == 1  # the limit is as it was
        done = moothall(*command[:-1], "10000", cwd=folder)
    assert stopped.returncode == 1
    assert (done.returncode, done.stderr) == (0, "")


def test_limits_may_be_others_when_a_run_goes_on(folder: Path) -> None:
    limits = ("--max-seconds", "60", "--max-tokens", "10000", "--max-iterations", "3")
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        stopped = moothall(*act(server, "--max-tokens", "10"), cwd=folder)
        done = moothall(*act(server, *limits), cwd=folder)
    assert stopped.returncode == 1
    assert (done.returncode, done.stderr) == (0, "")


def test_run_that_is_over_is_told_again(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        moothall(*act(server), cwd=folder)
    done = moothall("resume", "r", cwd=folder)  # its model is gone
    assert done.returncode == 0
    assert done.stderr == "moothall: run r has ended; this is its recorded reply\n"
    assert done.stdout == moothall("replay", "r", cwd=folder).stdout
    told, again = (moothall(name, "r", "--json", cwd=folder) for name in ("replay", "resume"))
    first, *events = map(json.loads, again.stdout.splitlines())
    assert first == {"kind": "run", "run_id": "r", "journal": JOURNAL}
    assert events.pop() == {**json.loads(told.stdout.splitlines()[-1]), "resume": []}
    assert events == [json.loads(line) for line in told.stdout.splitlines()[:-1]]


def test_resume_json_marks_past_events(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), HANG, does(SEARCH), streamed("Well.")) as server:
        stopped = moothall(*act(server, "--max-seconds", MOMENT_S, "--json"), cwd=folder)
        done = moothall("resume", "r", "--json", cwd=folder)
    events = [json.loads(line) for line in stopped.stdout.splitlines()]
    assert events[0] == {"kind": "run", "run_id": "r", "journal": JOURNAL}
    assert events[-1]["resume"] == ["moothall resume r"]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    calls = [event for event in events if event["kind"] == "call_started"]
    assert [event.get("past", False) for event in calls] == [True, False]
    assert (events[-1]["kind"], events[-1]["resume"]) == ("done", [])


def test_small_model_goes_on_in_a_folder_with_other_files(folder: Path, weights: Path) -> None:
    task = 'Run the command "echo hello"'
    with at_terminal("act", task, "--run-id", "r", cwd=folder) as terminal:
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.process.kill()
        terminal.process.wait()
    (folder / "another.txt").write_text("")  # whose name it would be given
    with at_terminal("resume", "r", cwd=folder) as terminal:
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert "the folder has other files now; resuming a fork, run r.1" in terminal.raw
    assert "  hello\r\n" in terminal.seen


@pytest.mark.usefixtures("weights")
async def test_run_of_the_small_model_by_another_program_goes_on_by_force_alone(
    folder: Path,
) -> None:
    with Journal(folder / JOURNAL) as journal:
        model = ScriptedModel([OSError("down")])
        agent = ReActAgent("files", model, system_prompt="Hurry.", journal=journal)
        await record_order(ActOrder("Do it", str(folder)), journal, "r", agent)
        assert (await agent.reply("Do it", run_id="r")).stop_reason == "error"
    limited = ("resume", "r", "--max-seconds", "0.001")
    refused = moothall(*limited, cwd=folder)
    assert "begun by another program" in refused.stderr
    forced = moothall(*limited, "--force", cwd=folder)
    assert "moothall: the program has changed; resuming a fork, run r.1\n" in forced.stderr


# -- settings and keys -----------------------------------------------------------------------------


def test_resume_works_from_any_folder_and_records_no_key(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    with OpenAIServer(does(SEARCH), HANG, streamed("Well.")) as server:
        limited = act(server, "--max-seconds", MOMENT_S)
        moothall(*limited, cwd=folder, MOOTHALL_KEY="sk-secret-1")
        recorded = b"".join(path.read_bytes() for path in folder.parent.glob("runs.db*"))
        path = str(folder.parent / "runs.db")
        done = moothall("resume", "r", "--journal", path, cwd=elsewhere, MOOTHALL_KEY="sk-secret-2")
        keys = [request.headers["authorization"] for request in server.requests]
    assert done.returncode == 0, done.stderr
    assert "line 2: milk, oat" in done.stdout
    assert keys == ["Bearer sk-secret-1", "Bearer sk-secret-1", "Bearer sk-secret-2"]
    assert b"sk-secret" not in recorded


def test_model_that_the_file_chose_gets_the_key_of_the_file_alone(folder: Path) -> None:
    with OpenAIServer(streamed("."), HANG, streamed("Well."), streamed("Well.")) as server:
        file = folder / "moothall.toml"
        file.write_text(f'model = "{server.url}#m"\nkey = "sk-of-file"\n')
        for n in range(2):
            command = ("act", "Do it", "--max-seconds", MOMENT_S, "--run-id", f"r{n}")
            moothall(*command, cwd=folder, MOOTHALL_KEY="sk-mine")
        file.write_text(f'model = "{server.url}#m"\nkey = "sk-new"\n')
        assert moothall("resume", "r1", cwd=folder, MOOTHALL_KEY="sk-mine").returncode == 0
        keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer sk-of-file", "Bearer sk-of-file", "Bearer sk-new"]


# -- runs of the user's own programs ---------------------------------------------------------------


def test_program_of_the_users_own_is_gone_on_with(folder: Path) -> None:
    killed_program(folder)
    asks = moothall("resume", "bread-1", cwd=folder)
    assert asks.returncode == 1
    assert "  1  pay(coins=3)\n" in asks.stderr
    assert "moothall resume bread-1 --skip\n" in asks.stderr
    done = moothall("resume", "bread-1", "--repeat", "--agent", "my_agents:buyer", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:-1] == [
        f"run bread-1, recorded in {JOURNAL}",
        "until now:",
        '→ look_up(item="bread")',
        "  3 coins",
        "→ pay(coins=3)",
        "from here on:",
        "→ pay(coins=3)",
        "  paid",
        '{"bread": 1}',
        "",
        "done: the model has answered",
    ]
    assert (folder / "looked").read_text() == "bread"
    assert (folder / "paid").read_text() == "3"


@dataclass
class Shopping:
    paid: bool = False


async def shop(path: Path, copy: Path) -> None:
    """Run an orchestrator that leaves the journal of a process that died as it paid."""
    with Journal(path) as journal:
        async with recorded(journal, "shop-1", "Shop", "me", Shopping, program={}) as record:

            async def pay(step: StepHandle) -> str:
                await step.begins({"coins": 3})
                crash(path, copy)
                return "paid"

            await record.step("pay", pay, outcome="ask", action="pay")


def test_decision_about_an_orchestrator_of_ones_own_names_its_program(folder: Path) -> None:
    asyncio.run(shop(folder / "whole.db", folder / "left.db"))
    with pytest.raises(InDoubt, match=r"`moothall resume shop-1 --repeat`, --skip or --done 1="):
        asyncio.run(shop(folder / "left.db", folder / "never.db"))
    decided = moothall("resume", "shop-1", "--repeat", "--journal", "left.db", cwd=folder)
    assert decided.stderr.endswith(
        "recorded; no installed package resumes the kind 'Shop': to resume it, run the program of "
        "Shop again with run_id='shop-1'\n"
    )
    assert decided.returncode == 1  # nothing was resumed


def test_decision_is_recorded_without_the_program(folder: Path) -> None:
    killed_program(folder)
    decided = moothall("resume", "bread-1", "--skip", cwd=folder)
    assert decided.returncode == 0, decided.stderr
    assert decided.stdout == (
        "recorded: the process that serves agent buyer goes on with it within seconds, or the next "
        "that starts; or run its program again with run_id='bread-1', or here: moothall resume "
        "bread-1 --agent MODULE:AGENT\n"
    )
    again = moothall("resume", "bread-1", cwd=folder)
    assert (again.returncode, again.stdout) == (0, decided.stdout)
    for option, becomes in (("--repeat", "run again"), ("--skip", "skipped")):
        otherwise = moothall("resume", "bread-1", option, cwd=folder)
        assert otherwise.returncode == 0  # nothing of it was carried out yet
        assert f"pay(coins=3) is {becomes}\n" in otherwise.stderr
    done = moothall("resume", "bread-1", "--agent", "my_agents:buyer", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "paid").exists()


def test_program_that_has_changed_goes_on_with_a_copy_by_force(folder: Path) -> None:
    killed_program(folder)
    command = ("resume", "bread-1", "--skip", "--agent", "my_agents:buyer")
    other = moothall(*command, cwd=folder, SAYS="Hurry.")
    assert (other.returncode, other.stdout) == (1, "")
    assert (
        "run 'bread-1' was begun by another program, which differs in: system prompt"
        in other.stderr
    )
    assert "--force" in other.stderr
    done = moothall(*command, "--force", cwd=folder, SAYS="Hurry.")
    assert done.returncode == 0, done.stderr
    assert "resuming a fork, run bread-1.1\n" in done.stderr
    runs = json.loads(moothall("runs", "--json", cwd=folder).stdout)["runs"]
    assert [(run["id"], run["forked_from"], run["state"]) for run in runs] == [
        ("bread-1", None, "stopped"),
        ("bread-1.1", "bread-1", "done"),
    ]


def test_resume_of_a_forked_run_is_refused_and_repeats_nothing(folder: Path) -> None:
    killed_program(folder)
    command = ("resume", "bread-1", "--agent", "my_agents:buyer")
    assert moothall(*command, "--repeat", "--force", cwd=folder, SAYS="Hurry.").returncode == 0
    for again in (command, (*command, "--repeat")):  # that was decided, and it is the program
        done = moothall(*again, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert "run 'bread-1' was forked as 'bread-1.1': resume the fork" in done.stderr
    shown = moothall("runs", "bread-1", cwd=folder).stdout
    assert shown.endswith("\nit was forked as: bread-1.1\n")
    assert (folder / "paid").read_text() == "3"
    assert moothall(*command, "--force", cwd=folder).returncode == 0
    assert (folder / "paid").read_text() == "33"


@pytest.mark.parametrize(
    ("agent", "code"), (("nowhere:buyer", 2), ("my_agents:nobody", 2), ("pathlib:Path", 2))
)
def test_resume_with_a_missing_agent_decides_nothing(folder: Path, agent: str, code: int) -> None:
    killed_program(folder)
    wrong = moothall("resume", "bread-1", "--repeat", "--agent", agent, cwd=folder)
    assert (wrong.returncode, wrong.stdout) == (code, "")
    assert "is run again" not in wrong.stderr
    with Journal(folder / JOURNAL) as journal:
        assert [doubt.action for doubt in journal.in_doubt("bread-1")] == ["pay"]


def test_wrong_agent_is_told_also_of_a_run_that_is_over(folder: Path) -> None:
    with Journal(folder.parent / "runs.db") as journal:
        agent = ReActAgent("clerk", ScriptedModel(["Well."]), journal=journal)
        agent.reply_sync("Hi", run_id="r")
    assert moothall("resume", "r", cwd=folder).returncode == 0
    done = moothall("resume", "r", "--agent", "nowhere:clerk", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no module 'nowhere'" in done.stderr


def test_agent_of_another_kind_is_refused(folder: Path) -> None:
    killed_program(folder)
    (folder / "other.py").write_text("from moothall import Agent\nclass Clerk(Agent): pass\n")
    done = moothall("resume", "bread-1", "--skip", "--agent", "other:Clerk", cwd=folder)
    assert done.returncode == 2
    assert "it is a Clerk, and the run is one of a ReActAgent" in done.stderr


# -- a decision for each call ----------------------------------------------------------------------


def test_calls_in_doubt_are_decided_by_their_numbers(folder: Path) -> None:
    killed_program(folder, THREE)
    shown = moothall("runs", "letters", cwd=folder).stdout.splitlines()[-8:]
    assert shown[:5] == [
        "outcome unknown, the run was cut off while these were running:",
        *(f'  {n}  send(to="{to}")' for n, to in enumerate("ABC", 1)),
        "Look whether each took effect, and then:",
    ]
    told = moothall("resume", "letters", "--json", "--agent", "my_agents:clerk", cwd=folder)
    assert [each.partition(" --agent")[0] for each in json.loads(told.stdout)["resume"]] == [
        "moothall resume letters --repeat",
        "moothall resume letters --skip",
        "moothall resume letters --done 1=RESULT --repeat 2 --skip",
    ]
    command = ("resume", "letters", "--repeat", "2", "--skip", "1", "--done", '3={"at": 5}')
    done = moothall(*command, "--agent", "my_agents:clerk", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        'send(to="B") is run again',
        'send(to="A") is skipped',
        'send(to="C") took effect',
    ]
    assert (folder / "sent").read_text() == "B"
    with Journal(folder / JOURNAL) as journal:
        a, b, c = journal.replay("letters").steps
    assert a.error.startswith("skipped: ")
    assert (b.result["result"], c.result["result"]) == ("sent", {"at": 5})


def test_decision_without_a_number_is_of_the_calls_that_are_left(folder: Path) -> None:
    killed_program(folder, THREE)
    first = moothall("resume", "letters", "--done", "2=by hand", cwd=folder)
    assert (first.returncode, first.stdout) == (1, "")
    assert [line[:6] for line in first.stderr.splitlines()[3:5]] == ["  1  s", "  3  s"]
    rest = moothall(
        "resume", "letters", "--repeat", "--skip", "3", "--agent", "my_agents:clerk", cwd=folder
    )
    assert rest.returncode == 0, rest.stderr
    assert (folder / "sent").read_text() == "A"
    with Journal(folder / JOURNAL) as journal:
        results = [step.result.get("result") for step in journal.replay("letters").steps]
    assert results == ["sent", "by hand", None]


def test_number_that_no_call_has_decides_nothing(folder: Path) -> None:
    killed_program(folder, THREE)
    wrong = moothall("resume", "letters", "--repeat", "1", "--skip", "4", cwd=folder)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == ("moothall: no call in doubt has the number 4: there are 1 to 3\n")
    with Journal(folder / JOURNAL) as journal:
        assert len(journal.in_doubt("letters")) == 3


# -- what cannot be resumed ------------------------------------------------------------------------


def test_run_that_is_being_worked_on_is_held(folder: Path) -> None:
    os.mkfifo(folder / "alive")
    with OpenAIServer(does(COMMAND)) as server, at_terminal(*act(server), cwd=folder) as terminal:
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("y\n")
        with (folder / "alive").open() as alive:  # a call under way there is not in doubt
            assert alive.readline() == "begun\n"
        for option in ((), ("--skip",)):
            done = moothall("resume", "r", *option, cwd=folder)
            assert (done.returncode, done.stdout) == (1, "")
            said = f"moothall: run 'r' is being worked on by process {terminal.process.pid} on"
            assert done.stderr.startswith(said)
            assert done.stderr.count("\n") == 1
        terminal.type(CONTROL_C)
        assert terminal.end() == 130


async def test_run_of_which_nothing_is_recorded_cannot_go_on(folder: Path) -> None:
    with Journal(folder.parent / "runs.db") as journal:
        (await journal.begin("r", "ReActAgent", "files", "Do it")).close()
    assert moothall("runs", "r", cwd=folder).stdout.splitlines()[1].endswith(", 0 entries")
    for options in ((), ("--agent", "a:b"), ("--skip",)):
        done = moothall("resume", "r", *options, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert "nothing is recorded of run 'r'" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    (
        (("r", "--repeat", "--skip"), 2, "all calls that are left: give one of --repeat, --skip"),
        (("r", "--repeat", "2", "--done", "2=1"), 2, "call 2: give one of --repeat, --skip"),
        (("r", "--repeat=x"), 2, "N must be the number of a call in doubt"),
        (("r", "--skip", "x"), 2, "N must be the number of a call in doubt"),
        (("r", "--done", "paid"), 2, "must be N=RESULT, got 'paid'"),
        (("r", "--done", '1={"paid": 3'), 2, "begins like JSON, and is not"),
        (("--repeat", "2"), 2, "Missing argument 'ID'"),
        ((), 2, "Missing argument 'ID'"),
        (("nobody",), 2, "has no run 'nobody'; its last ones are 'r'"),
        (("r", "--agent", "a:b"), 2, "it is a run of moothall act"),
        (("r", "--max-tokens", "0"), 2, "--max-tokens"),
        (("r", "--max-seconds", "nan"), 2, "must be a number of seconds above 0, got 'nan'"),
    ),
)
def test_resume_wrong_use_is_explained_without_a_traceback(
    folder: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    with OpenAIServer(streamed("Well.")) as server:
        moothall(*act(server), cwd=folder)
    done = moothall("resume", *args, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr

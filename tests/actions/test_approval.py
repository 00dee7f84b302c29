"""Approvers, each asked outside of any space."""

import asyncio
import io
import threading

import pytest

from moothall.actions.approval import (
    Always,
    AlwaysInRun,
    ApprovalRequest,
    Approver,
    CallbackApprover,
    ChangedArgs,
    Question,
    RefuseAll,
    Refused,
    Rule,
    RuleApprover,
    TerminalApprover,
    answer,
    approve,
)
from moothall.actions.slash import parse_slash
from moothall.agents.agent import Agent
from moothall.foundation.errors import ConfigError, DefinitionError
from pseudo_terminal import Terminal


def proposed(agent="Host", action="delete", /, sender="me", **args):
    return ApprovalRequest.of(
        {"from": sender, "to": agent, "action": {"name": action, "args": args}}
    )


def ask(approver, request=None):
    return asyncio.run(approve(approver, request or proposed(path="/tmp/x")))


# -- the request -----------------------------------------------------------------------------------


def test_approval_request_is_made_of_a_message():
    message = {
        "id": "1",
        "meta": {"k": 1},
        "from": "me",
        "to": "Host",
        "action": {"name": "delete", "args": {"path": "x"}},
    }
    request = ApprovalRequest.of(message)
    assert (request.agent, request.action, request.sender) == ("Host", "delete", "me")
    assert request.args == {"path": "x"}
    assert request.message == message


def test_approval_request_of_a_message_without_args_has_none():
    request = ApprovalRequest.of({"from": "me", "to": "Host", "action": {"name": "stop"}})
    assert request.args == {}
    assert str(request) == "/Host.stop"


@pytest.mark.parametrize("agent", ('Host.read file:"x"', "My host", 'a"b'))
def test_approval_request_lets_no_agent_pass_for_another_with_an_action(agent):
    request = proposed(agent, "delete", path="y")
    assert parse_slash(str(request)) == {
        "to": agent,
        "action": {"name": "delete", "args": {"path": "y"}},
    }
    assert str(request).startswith('/"')


def test_approval_request_too_long_for_a_line_reads_like_a_command_too():
    shown = str(proposed(text="x" * 2_000_000))
    assert shown.startswith('/"Host"."delete" "text":"xxx')


def test_approval_request_reads_like_the_command_that_makes_it():
    assert str(proposed(path="a b", force=True, n=1, l=[1, None])) == (
        '/Host.delete path:"a b" force:true n:1 l:[1, null]'
    )


def test_fingerprint_is_bound_to_agent_action_and_arguments():
    first = proposed("Host", "delete", a=1, b=[1, {"c": 2, "d": 3}])
    assert first.fingerprint == proposed("Host", "delete", b=[1, {"d": 3, "c": 2}], a=1).fingerprint
    assert first.fingerprint == proposed("Host", "delete", sender="x", **first.args).fingerprint
    others = [
        proposed("host", "delete", **first.args),
        proposed("Host", "deleted", **first.args),
        proposed("Host", "delete", a="1", b=first.args["b"]),
        proposed("Host", "delete", a=True, b=first.args["b"]),
        proposed("Host", "delete", a=1, b=[{"c": 2, "d": 3}, 1]),
        proposed("Host", "delete", a=1),
        proposed("Hostdelete", "", **first.args),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 8


# -- approve ---------------------------------------------------------------------------------------


def test_approval_without_an_approver_is_refused():
    assert ask(None) is False


@pytest.mark.parametrize("form", ("async def", "def", "def that gives an awaitable"))
@pytest.mark.parametrize(
    ("answer", "permitted"),
    (
        (True, True),
        (False, False),
        (None, False),
        (1, False),
        ("yes", False),
        ([True], False),
        (..., False),
    ),
)
def test_approver_permits_only_by_true(form, answer, permitted, caplog):
    class Async:
        async def approve(self, request):
            return answer

    class Plain:
        def approve(self, request):
            return answer

    class Later:
        def approve(self, request):
            return Async().approve(request)

    made = {"async def": Async, "def": Plain}.get(form, Later)()
    assert isinstance(made, Approver)
    assert ask(made) is permitted
    assert caplog.text == "" if isinstance(answer, bool) else f"got {answer!r}" in caplog.text
    caplog.clear()
    assert ask(CallbackApprover(made.approve)) is permitted
    assert caplog.text == "" if isinstance(answer, bool) else f"got {answer!r}" in caplog.text


@pytest.mark.parametrize("form", ("async def", "def"))
@pytest.mark.parametrize("wrapped", (False, True))
def test_approver_that_raises_refuses_and_is_logged(caplog, form, wrapped):
    class Async:
        async def approve(self, request):
            raise OSError("no line to the person")

    class Plain:
        def approve(self, request):
            raise OSError("no line to the person")

    made = (Async if form == "async def" else Plain)()
    assert ask(CallbackApprover(made.approve) if wrapped else made) is False
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "/Host.delete" in record.getMessage()
    assert "no line to the person" in caplog.text


def test_approver_of_a_wrong_type_refuses(caplog):
    assert ask(object()) is False
    assert "object" in caplog.text


@pytest.mark.parametrize("wrong", (object(), 5, lambda request: True, RefuseAll))
def test_agent_refuses_a_wrong_approver_at_once(wrong):
    with pytest.raises(DefinitionError, match=r"agent 'a': approver= needs .*approve\(request\)"):
        Agent("a", approver=wrong)


def test_agent_takes_any_object_that_approves():
    class Mine:
        def approve(self, request):
            return True

    mine = Mine()
    assert Agent("a", approver=mine).approver is mine


async def test_approver_that_is_plain_runs_beside_the_loop():
    free = threading.Event()
    approver = CallbackApprover(lambda request: free.wait(10))
    asking = asyncio.create_task(approve(approver, proposed()))
    await asyncio.sleep(0)
    assert not asking.done()
    free.set()
    assert (await asyncio.wait_for(asking, 10)) is True


def test_asking_can_be_cancelled():
    async def cancelled():
        free = threading.Event()
        approver = CallbackApprover(lambda request: free.wait(10))
        asking = asyncio.create_task(approve(approver, proposed()))
        await asyncio.sleep(0)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            return "cancelled"
        finally:
            free.set()
        return "answered"

    assert asyncio.run(cancelled()) == "cancelled"


async def test_blocked_questions_to_a_plain_approver_hold_up_no_other():
    """Neither on this loop nor on another, even if that is blocked as well."""
    free, over = threading.Event(), threading.Event()
    waits = CallbackApprover(lambda request: free.wait(10) if "n" in request.args else True)

    async def blocked():
        asking = [asyncio.create_task(approve(waits, proposed(n=n))) for n in range(50)]
        await asyncio.sleep(0)
        assert over.wait(10)
        return await asyncio.gather(*asking)

    other = asyncio.create_task(asyncio.to_thread(asyncio.run, blocked()))
    asking = [asyncio.create_task(approve(waits, proposed(n=n))) for n in range(100)]
    try:
        assert await asyncio.wait_for(approve(waits, proposed()), 10)
    finally:
        free.set()
        over.set()
    assert [*await other, *await asyncio.gather(*asking)] == [True] * 150


async def test_approver_can_be_asked_any_number_of_times():
    approver = CallbackApprover(lambda request: True)
    for n in range(200):
        assert await asyncio.wait_for(approve(approver, proposed(n=n)), 10)


def test_refuse_all_refuses():
    assert ask(RefuseAll()) is False


def test_callback_approver_of_no_function_is_refused_at_once():
    with pytest.raises(DefinitionError, match="CallbackApprover takes a function, got 5"):
        CallbackApprover(5)
    with pytest.raises(DefinitionError, match="answer= takes a function, got 'blue'"):
        CallbackApprover(lambda request: True, answer="blue")


def test_callback_approver_gives_the_request_to_its_function():
    request = proposed(path="x")
    given = []
    assert ask(CallbackApprover(lambda r: given.append(r) or True), request) is True
    assert given == [request]


# -- rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "permitted"),
    (
        (Rule(), True),
        (Rule("Host"), True),
        (Rule("host"), False),
        (Rule("Ho*"), True),
        (Rule("Hos"), False),
        (Rule("*", "delete"), True),
        (Rule("*", "del??e"), True),
        (Rule("*", "read"), False),
        (Rule("Host", "delete", {"path": "/tmp/*"}), True),
        (Rule("Host", "delete", {"path": "/etc/*"}), False),
        (Rule("Host", "delete", {"path": "tmp"}), False),
        (Rule("Host", "delete", {"path": "*", "force": "true"}), True),
        (Rule("Host", "delete", {"force": "false"}), False),
        (Rule("Host", "delete", {"missing": "*"}), False),
        (Rule("Host", "delete", {}), True),
        (Rule("Host", "delete", {"n": "1"}), True),
        (
            Rule("Host", "delete", {"names": '["a", "b"]'}),
            False,
        ),  # brackets are a set of characters
        (Rule("Host", "delete", {"names": '*"a", "b"*'}), True),
        (Rule("Host", "delete", {"at": '{"x": 1, "y": 2}'}), True),
        (Rule("Host", "delete", {"cities": "*Zürich*"}), True),
        (Rule(permit=False), False),
    ),
)
def test_rule_permits_what_matches(rule, permitted):
    at = {"y": 2, "x": 1}
    cities = ["Zürich", "Bern"]
    request = proposed(path="/tmp/x", force=True, n=1, names=["a", "b"], at=at, cities=cities)
    assert ask(RuleApprover([rule]), request) is permitted


def test_rule_pattern_that_is_no_text_is_refused_where_it_is_written():
    with pytest.raises(ConfigError, match="Rule: the pattern of amount must be a text, got 5"):
        Rule(action="refund", args={"amount": 5})
    with pytest.raises(ConfigError, match="Rule: args= must be patterns by name, got 5"):
        Rule(action="refund", args=5)


def test_rule_approver_obeys_the_first_rule_that_matches():
    rules = [Rule(args={"path": "/tmp/keep*"}, permit=False), Rule(args={"path": "/tmp/*"})]
    assert ask(RuleApprover(rules), proposed(path="/tmp/x")) is True
    assert ask(RuleApprover(rules), proposed(path="/tmp/keep me")) is False
    assert ask(RuleApprover(reversed(rules)), proposed(path="/tmp/keep me")) is True


@pytest.mark.parametrize(
    ("otherwise", "permitted"),
    ((None, False), (RefuseAll(), False), (CallbackApprover(lambda request: True), True)),
)
def test_rule_approver_unmatched_request_goes_to_otherwise(otherwise, permitted):
    assert ask(RuleApprover([Rule("nobody")], otherwise)) is permitted
    assert ask(RuleApprover([], otherwise)) is permitted


def test_rule_that_refuses_leaves_nothing_to_otherwise():
    otherwise = CallbackApprover(lambda request: True)
    assert ask(RuleApprover([Rule("Host", permit=False)], otherwise)) is False


@pytest.mark.parametrize("permit", (True, Always(), AlwaysInRun(), ChangedArgs({})))
def test_rule_permits_no_request_with_a_note_and_may_refuse_it(permit):
    request = ApprovalRequest("Host", "delete", {}, "Me", {}, note="read in a.txt")
    asked = []
    otherwise = CallbackApprover(lambda request: bool(asked.append(request)))
    assert ask(RuleApprover([Rule("Host", permit=permit)], otherwise), request) is False
    assert asked == [request]
    assert ask(RuleApprover([Rule("Host", permit=False)], otherwise), request) is False
    assert asked == [request]


@pytest.mark.parametrize("rule", ("Host.delete", {"agent": "Host"}, None, True))
def test_rule_approver_of_what_is_no_rule_is_refused(rule):
    with pytest.raises(DefinitionError, match="Rule"):
        RuleApprover([rule])


@pytest.mark.parametrize("rules", (Rule("Host"), "", None, 5, {}))
def test_rule_approver_of_what_is_no_list_of_rules_is_refused(rules):
    with pytest.raises(ConfigError, match="RuleApprover takes a list of rules, got"):
        RuleApprover(rules)


def test_rule_approver_otherwise_is_an_approver():
    with pytest.raises(DefinitionError, match="RuleApprover: otherwise= needs an object with a"):
        RuleApprover([], otherwise=True)


def test_refused_reason_must_be_a_text():
    with pytest.raises(DefinitionError, match="the reason must be a text, got 5"):
        Refused(5)


@pytest.mark.parametrize("permit", ("yes", 1, None))
def test_rule_permits_or_refuses_but_nothing_else(permit):
    with pytest.raises(ConfigError, match=r"Rule: permit= must be True, False, Refused"):
        Rule(permit=permit)


def test_rule_pattern_matches_the_whole_text_with_its_lines():
    rules = [Rule(args={"path": "/tmp/x"})]
    assert ask(RuleApprover(rules), proposed(path="/tmp/x\n/etc/passwd")) is False
    assert ask(RuleApprover(rules), proposed(path=" /tmp/x")) is False


# -- the terminal ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "permitted"),
    (
        ("y\n", True),
        ("yes\n", True),
        ("YES\n", True),
        ("  y  \n", True),
        ("y", True),
        ("n\n", False),
        ("no\n", False),
        ("\n", False),
        ("", False),
        ("yy\n", False),
        ("yes please\n", False),
        ("ye\n", False),
        ("true\n", False),
        ("1\n", False),
        ("j\n", False),
    ),
)
def test_terminal_permits_only_by_y_or_yes(typed, permitted):
    out = io.StringIO()
    assert ask(TerminalApprover(io.StringIO(typed), out)) is permitted
    assert '/Host.delete path:"/tmp/x"' in out.getvalue()
    assert "me" in out.getvalue()


def test_terminal_approver_reads_one_line_for_each_question():
    approver = TerminalApprover(io.StringIO("y\nn\ny\n"), io.StringIO())
    assert [ask(approver) for _ in range(4)] == [True, False, True, False]


@pytest.mark.parametrize("typed", ("a", "Always"))
def test_always_permits_exactly_this_call_from_now_on(typed):
    out = io.StringIO()
    approver = TerminalApprover(io.StringIO(f"{typed}\nn\nn\nn\nn\n"), out)

    def permits(agent="Host", action="delete", path="/tmp/x", thread=None):
        message = {"from": "me", "to": agent, "action": {"name": action, "args": {"path": path}}}
        return ask(approver, ApprovalRequest.of(message, thread=thread))

    assert permits()
    assert permits()
    assert out.getvalue().count("Permit this?") == 1
    assert not permits(path="/tmp/y")
    assert not permits(action="read")
    assert not permits(agent="Other")
    assert not permits(thread="Bo")
    assert permits()
    assert not ask(TerminalApprover(io.StringIO(), io.StringIO()))


def test_terminal_approver_of_a_closed_terminal_refuses(caplog):
    stdin, out = io.StringIO("y\n"), io.StringIO()
    stdin.close()
    assert ask(TerminalApprover(stdin, out)) is False
    assert out.getvalue().endswith("\n(no answer: refused)\n")
    assert caplog.text == ""


def test_terminal_approver_without_any_terminal_refuses(monkeypatch, caplog):
    monkeypatch.setattr("sys.stdin", None)  # as in a process whose standard input was closed
    assert ask(TerminalApprover(None, io.StringIO())) is False
    assert caplog.text == ""


def test_terminal_approver_that_cannot_write_refuses(caplog):
    out = io.StringIO()
    out.close()
    assert ask(TerminalApprover(io.StringIO("y\n"), out)) is False
    assert "TerminalApprover" in caplog.text


def test_terminal_approver_uses_the_processs_terminal_unless_another_is_given(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert ask(TerminalApprover()) is True
    assert "/Host.delete" in capsys.readouterr().out


def test_terminal_approver_shows_afterwards_what_is_printed_meanwhile(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    class Answers:
        def readline(self):
            print("a line of the program")
            return "y\n"

    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    assert ask(TerminalApprover(Answers())) is True
    print("a later one")
    assert screen.getvalue().endswith("always] a line of the program\na later one\n")


@pytest.mark.parametrize(
    "hidden",
    (
        "\x1b[2K\x1b[1A harmless",
        "\rharmless",
        "x\nPermit this? [y/N/always] y",
        "\x08\x08\x08",
        "\x9b31m",
        "\u202eevil",
        "\u2028line",
        "\x00",
        "\u200b",
    ),
)
@pytest.mark.parametrize("where", ("value", "name", "agent", "action", "sender", "nested"))
def test_terminal_approver_escapes_control_characters(hidden, where):
    out = io.StringIO()
    request = {
        "value": lambda: proposed(path=hidden),
        "name": lambda: proposed(**{hidden: 1}),
        "agent": lambda: proposed(hidden, "delete"),
        "action": lambda: proposed("Host", hidden),
        "sender": lambda: proposed(sender=hidden),
        "nested": lambda: proposed(path=[{hidden: hidden}]),
    }[where]()
    ask(TerminalApprover(io.StringIO("n\n"), out), request)
    shown = out.getvalue()
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown.count("\n") == 1
    assert shown.partition("\n")[2] == "Permit this? [y/N/always] "


@pytest.mark.parametrize("kind", ("approval", "question"))
async def test_terminal_approver_asks_one_question_at_a_time(kind):
    class Terminal(io.StringIO):
        """Notices if a question comes while another is open."""

        open = False
        overlapped = False

        def write(self, text):
            if "Permit this?" in text or "asks:" in text:
                self.overlapped |= self.open
                self.open = True
            return super().write(text)

    class Answers:
        def readline(self):
            barrier.wait(10)
            out.open = False
            return "y\n"

    out = Terminal()
    barrier = threading.Barrier(2)
    approver = TerminalApprover(Answers(), out)
    asking = [
        asyncio.create_task(
            approve(approver, proposed(n=n))
            if kind == "approval"
            else answer(approver, Question("painter", f"Which of {n}?"))
        )
        for n in range(5)
    ]
    for _ in asking:
        await asyncio.to_thread(barrier.wait, 10)
    assert (await asyncio.gather(*asking)) == [True if kind == "approval" else "y"] * 5
    assert not out.overlapped
    assert out.getvalue().count("Permit this?" if kind == "approval" else "asks:") == 5


async def test_approver_that_runs_out_of_answers_refuses() -> None:
    answers = iter([True])
    approver = CallbackApprover(lambda request: next(answers))
    request = ApprovalRequest.of({"to": "a", "from": "b", "action": {"name": "x", "args": {}}})
    assert [await approve(approver, request), await approve(approver, request)] == [True, False]


STREAMS = """
import sys
from moothall import TerminalApprover
from moothall.actions.approval import ApprovalRequest

class Keyboard:
    def readline(self):
        # As what shows a stream does at this moment.
        print("→ refund", {"order": "A1"})
        return sys.stdin.readline()

print("I will look", end="")
message = {"from": "desk", "to": "shop", "action": {"name": "refund", "args": {"order": "A1"}}}
print(TerminalApprover(Keyboard()).approve(ApprovalRequest.of(message)))
print("It is done.")
"""


def test_terminal_question_stands_alone_where_the_program_prints_a_stream():
    with Terminal("-c", STREAMS) as terminal:
        shown = terminal.until("[y/N/always] ")
        assert shown == (
            'I will look\r\ndesk proposes: /shop.refund order:"A1"\r\nPermit this? [y/N/always] '
        )
        terminal.type("y\n")
        terminal.until("It is done.")
        assert terminal.seen.startswith("y\r\n→ refund {'order': 'A1'}\r\nTrue\r\nIt is done.")


HOST = """
from moothall import Agent, NativeSpace, RefuseAll
from moothall.agents import Host

for approver in (None, RefuseAll()):
    with NativeSpace(approver=approver) as space:
        space.add(Host("Host"))
        me = space.add(Agent("me"))
        try:
            print("CAME", me.ask("Host", "list_files").result())
        except Exception as error:
            print("CAME", error)
"""


def test_host_without_an_approver_asks_at_the_terminal_of_its_program(tmp_path):
    (tmp_path / "notes.txt").touch()
    with Terminal("-c", HOST, cwd=tmp_path) as terminal:
        terminal.until("me proposes: /Host.list_files\r\nPermit this? [y/N/always] ")
        terminal.type("y\n")
        terminal.until("CAME ['notes.txt']")
        # The space's approver goes before.
        terminal.until('CAME "Host.list_files" not permitted')
        assert terminal.end() == 0

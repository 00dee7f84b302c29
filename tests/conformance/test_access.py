"""Access policies and approval."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, settle
from conformance.gate import LATE_S
from moothall import ACCESS_DENIED, ACCESS_PERMITTED, ACCESS_REQUESTED, Agent, action
from moothall.actions.approval import CallbackApprover, RefuseAll, Refused, Rule, RuleApprover
from moothall.foundation.errors import (
    InvalidArguments,
    NotPermitted,
    RequestCancelled,
    RequestTimeout,
)


class Host(Agent):
    def __init__(self, id="Host", **kwargs):
        super().__init__(id, **kwargs)
        self.done: Kept[Any] = Kept()

    @action
    async def stated_nothing(self) -> str:
        return "done"

    @action(access_policy=ACCESS_PERMITTED)
    async def permitted(self) -> str:
        return "done"

    @action(access_policy=ACCESS_DENIED)
    async def denied(self) -> str:
        self.done.add("denied")
        return "done"

    @action(access_policy=ACCESS_REQUESTED)
    async def delete(self, path: str, options: list | None = None) -> str:
        self.done.add(path)
        return f"deleted {path}"

    @action(access_policy=ACCESS_REQUESTED)
    def delete_plainly(self, path: str) -> str:
        self.done.add(path)
        return f"deleted {path}"

    @action
    async def note(self, text: str) -> str:
        self.done.add(text)
        return text


class Gate:
    """An approver that a test answers: `asked` has the requests, `answer` lets one through."""

    def __init__(self):
        self.asked: Kept[Any] = Kept()
        self.answers: dict[str, Any] = {}
        self._changed = threading.Condition()

    def approve(self, request):
        self.asked.add(request)
        path = request.args["path"]
        with self._changed:
            assert self._changed.wait_for(lambda: path in self.answers, 10)
        return self.answers[path]

    def answer(self, path, permit=True):
        with self._changed:
            self.answers[path] = permit
            self._changed.notify_all()


@pytest.fixture
def me(space):
    return space.add(Recorder("me"))


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    for request in gate.asked:
        gate.answer(request.args["path"], permit=False)


def asked_of(permit, form):
    """A class of hosts that answer with `permit`, or raise it; and what they were asked."""
    asked = Kept()

    def answer(proposed_message):
        asked.add(proposed_message)
        if isinstance(permit, Exception):
            raise permit
        return permit

    class Async(Host):
        async def request_permission(self, proposed_message):
            await asyncio.sleep(0)
            return answer(proposed_message)

    class Plain(Host):
        def request_permission(self, proposed_message):
            return answer(proposed_message)

    return (Async if form == "async def" else Plain)("Host"), asked


FORMS = pytest.mark.parametrize("form", ("async def", "def"))
DELETES = pytest.mark.parametrize("name", ("delete", "delete_plainly"))

# -- policies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("stated_nothing", "permitted"))
def test_permitted_and_no_policy_permit_any_agent_at_any_time(space, me, name):
    space.add(Host())
    for _ in range(3):
        assert me.ask("Host", name).result(timeout=10) == "done"
    me.send(message("Host", name))
    assert me.told() == [("response", {"data": "done", "original_message_id": None})]


def test_denied_prevents_access(space, me):
    host = space.add(Host(approver=CallbackApprover(lambda request: True)))
    with pytest.raises(NotPermitted) as caught:
        me.ask("Host", "denied").result(timeout=10)
    assert str(caught.value) == '"Host.denied" not permitted'
    me.send({"id": "d", **message("Host", "denied")})
    assert me.told() == [
        ("error", {"error": '"Host.denied" not permitted', "original_message_id": "d"})
    ]
    with pytest.raises(NotPermitted):
        host.ask("Host", "denied").result(timeout=10)
    assert list(host.done) == []
    assert me.ask("Host", "permitted").result(timeout=10) == "done"


@FORMS
@DELETES
def test_requested_asks_and_true_permits(space, me, form, name):
    host, asked = asked_of(True, form)
    space.add(host)
    sent = {"id": "one", "meta": {"why": "tidy"}, **message("Host", name, path="/tmp/x")}
    assert me.request(sent).result(timeout=10) == "deleted /tmp/x"
    assert list(asked) == [{"from": "me", **sent}]
    assert list(host.done) == ["/tmp/x"]
    me.send(sent)
    assert me.told() == [("response", {"data": "deleted /tmp/x", "original_message_id": "one"})]
    assert len(asked) == 2


@FORMS
@pytest.mark.parametrize(
    "permit",
    (False, None, 1, "yes", "True", [True], 1.0, ..., RuntimeError("the asker fails")),
    ids=repr,
)
def test_request_permission_refuses_by_anything_but_true(space, me, form, permit):
    host, asked = asked_of(permit, form)
    space.add(host)
    with pytest.raises(NotPermitted) as caught:
        me.ask("Host", "delete", path="x").result(timeout=10)
    assert str(caught.value) == '"Host.delete" not permitted'
    me.send({"id": "one", **message("Host", "delete", path="x")})
    assert me.told() == [
        ("error", {"error": '"Host.delete" not permitted', "original_message_id": "one"})
    ]
    assert len(asked) == 2
    assert list(host.done) == []
    assert me.ask("Host", "permitted").result(timeout=10) == "done"


@FORMS
def test_access_decision_of_a_wrong_type_is_logged_and_refuses(space, me, log, form):
    host, _ = asked_of("yes", form)
    space.add(host)
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="x").result(timeout=10)
    line = log.wait_for("Host.delete")
    assert "must be True, False, Refused(…)" in line
    assert line.endswith("got 'yes'")


@FORMS
def test_approval_exception_while_asking_is_logged(space, me, log, form):
    host, _ = asked_of(RuntimeError("the asker fails"), form)
    space.add(host)
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="x").result(timeout=10)
    line = log.wait_for("RuntimeError: the asker fails")
    assert line.startswith("ERROR")
    assert "Host" in line
    assert "the asker fails" not in str(me.messages)


@FORMS
def test_invalid_arguments_are_refused_without_asking(space, me, form):
    host, asked = asked_of(True, form)
    space.add(host)
    with pytest.raises(InvalidArguments, match=r'"Host\.delete" missing argument "path"'):
        me.ask("Host", "delete").result(timeout=10)
    assert list(asked) == []


@FORMS
def test_broadcast_asks_each_approver_and_a_refusal_comes_back(space, me, form):
    host, asked = asked_of(False, form)
    space.add(host)
    space.add(Host("open", approver=CallbackApprover(lambda request: True)))
    me.send(message("*", "delete", path="x"))
    answers = {m["from"]: m["action"]["name"] for m in me.wait_for(2)}
    assert answers == {"Host": "error", "open": "response"}
    assert len(asked) == 1


def test_broadcast_asks_about_each_agent_by_its_own_id(make_space):
    rules = RuleApprover([Rule("prod", permit=False), Rule(action="delete")])
    with make_space(approver=rules) as space:
        me = space.add(Recorder("me", receive_own_broadcasts=False))
        space.add(Host("prod"))
        space.add(Host("test"))
        me.send(message("*", "delete", path="x"))
        answers = {m["from"]: m["action"]["name"] for m in me.wait_for(2)}
    assert answers == {"prod": "error", "test": "response"}


def test_override_states_its_own_access_policy(space, me):
    class Open(Host):
        @action
        async def denied(self) -> str:
            return "open now"

        async def delete(self, path: str, options: list | None = None) -> str:
            raise AssertionError("unmarked, it keeps the policy of the base")

    space.add(Open())
    assert me.ask("Host", "denied").result(timeout=10) == "open now"
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="x").result(timeout=10)


# -- approvers -------------------------------------------------------------------------------------


@DELETES
def test_approval_without_an_approver_is_refused(space, me, name, log):
    host = space.add(Host())
    with pytest.raises(NotPermitted, match=rf'"Host\.{name}" not permitted'):
        me.ask("Host", name, path="x").result(timeout=10)
    assert list(host.done) == []
    log.wait_for("agent 'Host' has no approver, so it refuses")


@pytest.mark.parametrize("where", ("agent", "space"))
def test_approver_of_the_agent_or_of_the_space_is_asked(make_space, where):
    asked = Kept()

    def answer(request):
        asked.add((request.agent, request.action, request.args, request.sender, request.thread))
        return True

    approver = CallbackApprover(answer)
    space = make_space(approver=approver if where == "space" else None)
    me = space.add(Recorder("me"))
    space.add(Host(approver=approver if where == "agent" else None))
    assert me.ask("Host", "delete", path="x").result(timeout=10) == "deleted x"
    assert list(asked) == [("Host", "delete", {"path": "x"}, "me", "me")]


def test_approver_of_the_agent_goes_before_the_spaces(make_space):
    space = make_space(approver=CallbackApprover(lambda request: True))
    me = space.add(Recorder("me"))
    host = space.add(Host(approver=RefuseAll()))
    space.add(Host("other"))
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="x").result(timeout=10)
    assert list(host.done) == []
    assert me.ask("other", "delete", path="x").result(timeout=10) == "deleted x"


def test_request_permission_of_the_agent_goes_before_any_approver(make_space):
    space = make_space(approver=CallbackApprover(lambda request: True))
    me = space.add(Recorder("me"))
    host, asked = asked_of(False, "def")
    space.add(host)
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="x").result(timeout=10)
    assert len(asked) == 1


def test_request_permission_of_the_agent_may_extend_the_default(make_space):
    class Careful(Host):
        async def request_permission(self, proposed_message):
            if proposed_message["action"]["args"]["path"].startswith("/etc"):
                return False
            return await super().request_permission(proposed_message)

    space = make_space(approver=CallbackApprover(lambda request: True))
    me = space.add(Recorder("me"))
    space.add(Careful())
    assert me.ask("Host", "delete", path="/tmp/x").result(timeout=10) == "deleted /tmp/x"
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="/etc/x").result(timeout=10)


def test_rules_permit_and_refuse_by_action_and_arguments(make_space):
    rules = (Rule("Host", "delete", {"path": "/tmp/*"}), Rule("Host", "delete_plainly"))
    space = make_space(approver=RuleApprover(rules))
    me = space.add(Recorder("me"))
    host = space.add(Host())
    assert me.ask("Host", "delete", path="/tmp/x").result(timeout=10) == "deleted /tmp/x"
    assert me.ask("Host", "delete_plainly", path="/etc").result(timeout=10) == "deleted /etc"
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="/etc/passwd").result(timeout=10)
    assert list(host.done) == ["/tmp/x", "/etc"]


@FORMS
@pytest.mark.parametrize(
    "answer", (1, "yes", None, False, RuntimeError("the approver fails")), ids=repr
)
def test_approver_permits_only_by_true(make_space, log, form, answer):
    def decide():
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Async:
        async def approve(self, request):
            return decide()

    class Plain:
        def approve(self, request):
            return decide()

    space = make_space(approver=(Async if form == "async def" else Plain)())
    me = space.add(Recorder("me"))
    host = space.add(Host())
    with pytest.raises(NotPermitted, match=r'"Host\.delete" not permitted'):
        me.ask("Host", "delete", path="x").result(timeout=10)
    assert list(host.done) == []
    if isinstance(answer, Exception):
        log.wait_for("RuntimeError: the approver fails")


def test_refusal_with_a_reason_that_no_text_can_carry_is_told_all_the_same(make_space):
    space = make_space(approver=CallbackApprover(lambda request: Refused("no \ud800 today")))
    me = space.add(Recorder("me"))
    space.add(Host())
    with pytest.raises(NotPermitted, match=r"not permitted: no \\ud800 today$"):
        me.ask("Host", "delete", path="x").result(timeout=10)


def test_approver_that_blocks_holds_up_nobody_else(make_space, gate):
    space = make_space(approver=gate)
    me = space.add(Recorder("me"))
    space.add(Host())
    space.add(Host("other"))
    waiting = [me.ask("Host", "delete", path=f"file {n}") for n in range(20)]
    gate.asked.wait_for(20)
    assert me.ask("other", "permitted").result(timeout=10) == "done"
    assert me.ask("Host", "permitted").result(timeout=10) == "done"
    for n in range(20):
        gate.answer(f"file {n}")
    assert [r.result(timeout=10) for r in waiting] == [f"deleted file {n}" for n in range(20)]


# -- the order while one waits ---------------------------------------------------------------------


def test_later_messages_pass_and_an_approved_one_is_handled_as_if_it_came_then(space, me, gate):
    host = space.add(Host(approver=gate))
    me.send({"id": "slow", **message("Host", "delete", path="slow")})
    gate.asked.wait_for(1)
    me.send(message("Host", "note", text="one"))
    me.send(message("Host", "note", text="two"))
    host.done.wait_for(2)
    assert list(host.done) == ["one", "two"]
    gate.answer("slow")
    host.done.wait_for(3)
    me.send(message("Host", "note", text="three"))
    assert host.done.wait_for(4) == ["one", "two", "slow", "three"]
    answers = me.wait_for(4)
    assert ("deleted slow", "slow") in {
        (m["action"]["args"]["data"], m["action"]["args"]["original_message_id"]) for m in answers
    }


def test_approved_message_waits_for_its_turn(space, me, gate):
    go_on = threading.Event()
    entered = threading.Event()

    class Busy(Host):
        @action
        def work(self) -> None:
            entered.set()
            go_on.wait(10)
            self.done.add("work")

    host = space.add(Busy(approver=gate))
    me.send(message("Host", "delete", path="slow"))
    gate.asked.wait_for(1)
    me.send(message("Host", "work"))
    assert entered.wait(10)
    me.send(message("Host", "note", text="queued before the approval"))
    # An answer from this sender shows that the note has arrived.
    me.ask("me", "help").result(timeout=10)
    gate.answer("slow")
    go_on.set()
    done = host.done.wait_for(3)
    assert done[0] == "work"
    assert sorted(done[1:]) == ["queued before the approval", "slow"]


def test_approvals_come_in_any_order(space, me, gate):
    host = space.add(Host(approver=gate))
    for path in ("one", "two", "three"):
        me.send({"id": path, **message("Host", "delete", path=path)})
    gate.asked.wait_for(3)
    for n, (path, permit) in enumerate((("three", True), ("one", False), ("two", True))):
        gate.answer(path, permit)
        me.wait_for(n + 1)
    assert [
        (m["action"]["name"], m["action"]["args"]["original_message_id"]) for m in me.messages
    ] == [("response", "three"), ("error", "one"), ("response", "two")]
    assert list(host.done) == ["three", "two"]


@pytest.mark.parametrize("way", ("send", "request"))
def test_approved_arguments_cannot_change_after_the_question(space, me, gate, way):
    got = Kept()

    class Keeper(Host):
        @action(access_policy=ACCESS_REQUESTED)
        async def delete(self, path: str, options: list | None = None) -> None:
            got.add((path, options))

    space.add(Keeper(approver=gate))
    sent = message("Host", "delete", path="harmless", options=[["dry"]])
    pending = getattr(me, way)(sent)
    [request] = gate.asked.wait_for(1)
    sent["action"]["args"]["path"] = "dangerous"
    sent["action"]["args"]["options"][0].append("force")
    request.args["options"].append("from the approver")
    request.message["action"]["args"]["path"] = "dangerous"
    gate.answer("harmless")
    assert got.wait_for(1) == [("harmless", [["dry"]])]
    del pending


def test_access_changes_to_the_proposed_message_have_no_effect(space, me):
    got = Kept()

    class Spoiler(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def delete(self, path: str, options: list) -> None:
            got.add((path, options, self.current_message))

        def request_permission(self, proposed_message):
            proposed_message["action"]["args"]["path"] = "dangerous"
            proposed_message["action"]["args"]["options"].append("force")
            proposed_message["action"]["name"] = "format"
            return True

    space.add(Spoiler("Host"))
    me.ask("Host", "delete", path="harmless", options=[]).result(timeout=10)
    assert list(got) == [
        ("harmless", [], {"from": "me", **message("Host", "delete", path="harmless", options=[])})
    ]


# -- while one waits, the sender may not -----------------------------------------------------------


def test_approval_after_the_deadline_never_runs_the_action(space, me, gate):
    host = space.add(Host(approver=gate))
    with pytest.raises(RequestTimeout):
        me.request(message("Host", "delete", path="late"), timeout=LATE_S).result(timeout=10)
    gate.asked.wait_for(1)
    gate.answer("late")
    settle(me, host)
    assert me.ask("Host", "note", text="after").result(timeout=10) == "after"
    assert list(host.done) == ["after"]


@FORMS
def test_approval_of_a_cancelled_request_never_runs_the_action(space, me, form):
    entered = threading.Event()
    answered = threading.Event()

    class Async(Host):
        async def request_permission(self, proposed_message):
            entered.set()
            await asyncio.to_thread(answered.wait, 10)
            return True

    class Plain(Host):
        def request_permission(self, proposed_message):
            entered.set()
            answered.wait(10)
            return True

    host = space.add((Async if form == "async def" else Plain)())
    request = me.ask("Host", "delete", path="x")
    assert entered.wait(10)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=10)
    settle(me, host)  # over a broker, word of it travels
    answered.set()
    settle(me, host)
    assert me.ask("Host", "note", text="after").result(timeout=10) == "after"
    assert list(host.done) == ["after"]


def test_request_cancelled_before_permission_is_asked_waits_for_none(space, me):
    class Hasty(Agent):
        @action
        async def hurry(self) -> None:
            request = self.ask("Host", "delete", path="x")
            asyncio.get_running_loop().call_soon(request.cancel)
            with contextlib.suppress(RequestCancelled):
                await request

    host, hasty = space.add(Host()), space.add(Hasty("hasty"))
    me.ask("hasty", "hurry").result(timeout=10)
    settle(hasty, host)
    found = space.statistics()["agents"]["Host"]
    assert (found["asking"], found["waiting"], list(host.done)) == (0, 0, [])


def test_access_request_permission_may_ask_another_agent(space, me):
    class Boss(Listener):
        @action
        async def may_i(self, what: str) -> bool:
            return what == "harmless"

    class Employee(Host):
        async def request_permission(self, proposed_message):
            path = proposed_message["action"]["args"]["path"]
            return await self.ask("boss", "may_i", what=path)

    space.add(Boss("boss"))
    space.add(Employee())
    assert me.ask("Host", "delete", path="harmless").result(timeout=10) == "deleted harmless"
    with pytest.raises(NotPermitted):
        me.ask("Host", "delete", path="dangerous").result(timeout=10)


@FORMS
def test_access_request_permission_may_ask_the_proposer(space, form):
    """The chain of the request goes on: the proposer waits, so it can be asked."""

    class Proposer(Listener):
        @action
        async def propose(self) -> str:
            return await self.ask("Host", "delete", path="x")

        @action
        async def sure(self) -> bool:
            return True

    class Async(Host):
        async def request_permission(self, proposed_message):
            return await self.ask(proposed_message["from"], "sure")

    class Plain(Host):
        def request_permission(self, proposed_message):
            return self.ask(proposed_message["from"], "sure").result(timeout=5)

    me = space.add(Agent("me"))
    space.add(Proposer("proposer"))
    space.add((Async if form == "async def" else Plain)())
    assert me.ask("proposer", "propose").result(timeout=10) == "deleted x"

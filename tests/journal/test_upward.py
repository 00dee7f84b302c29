"""What an action of another agent asks, and waits for, belongs to the run on whose behalf it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from journal.conftest import Place
from moothall import (
    ACCESS_REQUESTED,
    Agent,
    CallbackApprover,
    ChangedArgs,
    Context,
    Conversation,
    DualActAgent,
    Journal,
    Later,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.models.protocol import Call

ACCEPT = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "so"}'


class Bank(Agent):
    """What another agent does for a clerk; `done` has every effect."""

    def __init__(self, id: str = "Bank", **options: Any) -> None:
        super().__init__(id, **options)
        self.done: list[str] = []

    def _do(self, what: str) -> str:
        self.done.append(what)
        return what

    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, n: int) -> str:
        """Pay."""
        return self._do(f"paid {n}")

    @action
    async def send(self, n: int) -> str:
        """Send a batch, of which the bank says later what came."""
        self._do(f"sent {n}")
        raise Later("batch")

    @action
    async def hand_in(self, n: int) -> Later:
        """Hand in a form."""
        self._do(f"handed in {n}")
        return Later("batch")

    @action
    def hand_in_plainly(self, n: int) -> Later:
        """Hand in a form, in a thread."""
        self._do(f"handed in {n}")
        return Later("batch")

    @action
    async def choose(self, n: int, context: Context[Any]) -> str:
        """Ask two things, and choose."""
        colour = await context.ask_person("Which colour?")
        size = await context.ask_person("Which size?")
        return self._do(f"chose {colour} {size} {n}")

    @action
    def choose_plainly(self, n: int, context: Context[Any]) -> str:
        """Ask two things from a thread, and choose."""
        colour = context.ask_person("Which colour?").result()
        return self._do(f"chose {colour} {context.ask_person('Which size?').result()} {n}")


def results(messages: list[dict[str, Any]]) -> list[str]:
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def calling(*calls: Call) -> ScriptedModel:
    """Return a model that makes these calls in one answer, and says their results."""
    return ScriptedModel(lambda said, _: "; ".join(results(said)) if results(said) else calls)


def call(name: str, n: int = 1) -> Call:
    return Call(str(n), name, {"n": n})


Make = Callable[[Any, Call], Any]


def alone(journal: Any, *calls: Call) -> ReActAgent:
    return ReActAgent("clerk", calling(*calls), discover=["Bank"], journal=journal)


def member_of_talk(journal: Any, *calls: Call) -> Conversation:
    return Conversation([alone(None, *calls)], id="talk", until=MaxTurns(1), journal=journal)


def member_of_dual_act(journal: Any, *calls: Call) -> DualActAgent:
    human = ReActAgent("H", ScriptedModel([ACCEPT]))
    reactive = alone(None, *calls)
    return DualActAgent(
        human=human, reactive=reactive, first="reactive", id="dual", journal=journal
    )


def asked_by_a_chief(journal: Any, *calls: Call) -> ReActAgent:
    helper = alone(None, *calls)
    model = calling(Call("a", "clerk", {"text": "go"}))
    return ReActAgent("chief", model, actions=[helper.as_action(fresh=True)], journal=journal)


SHAPES = (alone, member_of_talk, member_of_dual_act, asked_by_a_chief)


@contextmanager
def together(make: Make, journal: Any, *calls: Call, **options: Any) -> Iterator[Any]:
    """Have a bank and who asks it in a space, as a new process would."""
    with NativeSpace(**{"approver": Waiting(), **options}) as space:
        bank = space.add(Bank())
        agent = make(journal, *calls)
        for each in (agent, *agent.member_agents, *asked_of(agent)):
            space.add(each)
        yield agent, bank


def asked_of(agent: Any) -> list[Any]:
    actions = getattr(getattr(agent, "actions", None), "get_actions", list)()
    return [each.origin.agent for each in actions if each.origin.agent is not None]


def open_waits(journal: Journal) -> dict[str, str]:
    """Return what waits, by kind and words: the key."""
    return {
        f"{each.kind} {each.action} {each.text}".strip(): each.key for each in journal.waiting("r")
    }


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
@pytest.mark.parametrize(("permitted", "end"), ((True, "paid 1"), (False, "not permitted")))
def test_approval_of_another_agents_action_waits_in_the_run_that_asks(
    place: Place, shape: Make, permitted: bool, end: str
) -> None:
    file = place("runs.db")
    with together(shape, file, call("Bank_pay")) as (agent, bank):
        assert agent.reply_sync("go", run_id="r").stop_reason == "waiting"
        assert bank.done == []
    with Journal(file) as journal:
        (wait,) = journal.waiting("r")
        assert (wait.kind, wait.action, wait.args) == ("approval", "Bank.pay", {"n": 1})
        journal.answer("r", wait.key, permitted, by="eva")
    with together(shape, file, call("Bank_pay")) as (agent, bank):
        reply = agent.reply_sync("go", run_id="r")
        assert reply.stop_reason in ("done", "terminated", "max_turns")
        assert end in reply.text
        assert bank.done == (["paid 1"] if permitted else [])


@pytest.mark.parametrize("name", ("send", "hand_in", "hand_in_plainly"))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
def test_result_of_another_agents_action_that_comes_later_is_that_of_the_call(
    tmp_path: Path, shape: Make, name: str
) -> None:
    file = str(tmp_path / "runs.db")
    with together(shape, file, call(f"Bank_{name}")) as (agent, bank):
        assert agent.reply_sync("go", run_id="r").stop_reason == "waiting"
        assert len(bank.done) == 1
    with Journal(file) as journal:
        assert [each.name for each in journal.waiting("r")] == ["batch"]
        journal.answer("r", "batch", "came")
    with together(shape, file, call(f"Bank_{name}")) as (agent, bank):
        assert "came" in agent.reply_sync("go", run_id="r").text
        assert bank.done == []


@pytest.mark.parametrize("name", ("choose", "choose_plainly"))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
def test_questions_of_another_agents_action_wait_and_are_asked_once(
    tmp_path: Path, shape: Make, name: str
) -> None:
    file = str(tmp_path / "runs.db")
    for question, text in (("Which colour?", "blue"), ("Which size?", "large")):
        with together(shape, file, call(f"Bank_{name}")) as (agent, bank):
            assert agent.reply_sync("go", run_id="r").stop_reason == "waiting"
            assert bank.done == []
        with Journal(file) as journal:
            (wait,) = journal.waiting("r")
            assert (wait.kind, wait.text) == ("question", question)
            journal.answer("r", wait.key, text, by="eva")
    with together(shape, file, call(f"Bank_{name}")) as (agent, bank):
        assert "chose blue large 1" in agent.reply_sync("go", run_id="r").text
        assert bank.done == ["chose blue large 1"]


def test_person_may_change_the_arguments_of_another_agents_action(tmp_path: Path) -> None:
    file = str(tmp_path / "runs.db")
    with together(alone, file, call("Bank_pay")) as (agent, _):
        agent.reply_sync("go", run_id="r")
    with Journal(file) as journal:
        (wait,) = journal.waiting("r")
        journal.answer("r", wait.key, ChangedArgs({"n": 7}), by="eva")
    with together(alone, file, call("Bank_pay")) as (agent, bank):
        reply = agent.reply_sync("go", run_id="r")
        assert bank.done == ["paid 7"]
        (step,) = reply.steps
        assert step.args == {"n": 7}


def test_approver_that_answers_at_once_may_change_the_arguments_without_a_journal() -> None:
    approver = CallbackApprover(lambda request: ChangedArgs({"n": 7}))
    with together(alone, None, call("Bank_pay"), approver=approver) as (agent, bank):
        assert agent.reply_sync("go").text.startswith("paid 7")
        assert bank.done == ["paid 7"]


def test_calls_of_one_answer_are_permitted_each_by_itself(place: Place) -> None:
    file = place("runs.db")
    calls = (call("Bank_pay", 1), call("Bank_pay", 2), call("Bank_hand_in", 3))
    with together(alone, file, *calls) as (agent, _):
        agent.reply_sync("go", run_id="r")
    with Journal(file) as journal:
        waits = {str(each.args): each.key for each in journal.waiting("r")}
        assert len(waits) == 3
        journal.answer("r", waits["{'n': 1}"], True)
    with together(alone, file, *calls) as (agent, bank):
        assert agent.reply_sync("go", run_id="r").stop_reason == "waiting"
        assert bank.done == ["paid 1"]
    with Journal(file) as journal:
        journal.answer("r", waits["{'n': 2}"], False)
        journal.answer("r", "batch", "came")
    with together(alone, file, *calls) as (agent, bank):
        reply = agent.reply_sync("go", run_id="r")
        assert [each in reply.text for each in ("paid 1", "not permitted", "came")] == [True] * 3
        assert bank.done == []


def test_fork_asks_again_what_another_agents_action_has_asked(tmp_path: Path) -> None:
    file = str(tmp_path / "runs.db")
    with together(alone, file, call("Bank_pay")) as (agent, _):
        agent.reply_sync("go", run_id="r")
    with Journal(file) as journal:
        fork = journal.fork("r")
    with together(alone, file, call("Bank_pay")) as (agent, bank):
        assert agent.reply_sync("go", run_id=fork).stop_reason == "waiting"
        with Journal(file) as journal:
            (wait,) = journal.waiting(fork)
            journal.answer(fork, wait.key, True)
            journal.cancel("r")
        assert agent.reply_sync("go", run_id=fork).text.endswith("paid 1")
        assert bank.done == ["paid 1"]


def test_action_that_asks_another_agents_action_in_its_middle_is_refused_in_words(
    tmp_path: Path,
) -> None:
    async def work(context: Context[Any]) -> str:
        """Work."""
        return str(await context.agent.ask("Bank", "pay", n=1))

    with NativeSpace(approver=Waiting()) as space:
        bank = space.add(Bank())
        model = calling(Call("0", "work", {}))
        clerk = ReActAgent("clerk", model, actions=[work], journal=str(tmp_path / "runs.db"))
        reply = space.add(clerk).reply_sync("go")
        assert reply.stop_reason == "done"
        assert "nothing waits in the middle of another action" in reply.text
        assert bank.done == []


PROGRAM = """
import os, sys
from moothall import *

class Bank(Agent):
    @action
    async def pay(self, n: int) -> str:
        print("paid", n, flush=True)
        if sys.argv[1] == "kill": os.kill(os.getpid(), 9)
        return f"paid {n}"

def said(ms): return [m["content"] for m in ms if m["role"] == "tool"]
with NativeSpace() as space:
    space.add(Bank("Bank"))
    call = {"name": "Bank_pay", "args": {"n": 1}}
    model = ScriptedModel(lambda ms, _: said(ms)[-1] if said(ms) else call)
    clerk = space.add(ReActAgent("clerk", model, discover=["Bank"], journal=sys.argv[2]))
    print(clerk.reply_sync("go", run_id="r").stop_reason)
"""


def test_process_that_dies_in_another_agents_action_leaves_the_call_in_doubt(place: Place) -> None:
    file = place("runs.db")
    killed = run_command("kill", file, code=PROGRAM)
    assert (killed.returncode, killed.stdout) == (-9, "paid 1\n")
    assert run_command("live", file, code=PROGRAM).stdout == "in_doubt\n"
    with Journal(file) as journal:
        (doubt,) = journal.waiting("r", kind="doubt")
        assert (doubt.action, doubt.args) == ("Bank.pay", {"n": 1})
        journal.answer("r", doubt.key, {"done": "paid it"})
    assert run_command("live", file, code=PROGRAM).stdout == "done\n"


ASKS = """
import os, sys
from moothall import *

command, file, effects = sys.argv[1:]

class Bank(Agent):
    @action(access_policy=ACCESS_REQUESTED)
    async def pay(self, n: int) -> str:
        with open(effects, "a") as out: out.write("paid ")
        if command == "kill later": os.kill(os.getpid(), 9)
        return f"paid {n}"

def decide(request):
    if command == "kill": os.kill(os.getpid(), 9)
    return True

def said(ms): return [m["content"] for m in ms if m["role"] == "tool"]
with NativeSpace(approver=CallbackApprover(decide)) as space:
    space.add(Bank("Bank"))
    call = {"name": "Bank_pay", "args": {"n": 1}}
    model = ScriptedModel(lambda ms, _: said(ms)[-1] if said(ms) else call)
    options = {"discover": ["Bank"], "journal": file, "budget": Budget(actions=1)}
    clerk = space.add(ReActAgent("clerk", model, **options))
    print(clerk.reply_sync("go", run_id="r").stop_reason)
"""


@pytest.mark.parametrize(
    ("kill", "end", "paid"), (("kill", "done", 1), ("kill later", "in_doubt", 1))
)
def test_process_that_dies_while_a_person_decides_for_another_agent_leaves_no_doubt(
    tmp_path: Path, kill: str, end: str, paid: int
) -> None:
    """One that dies in the permitted action does; the call counts once in the budget."""
    places = (str(tmp_path / "runs.db"), str(tmp_path / "effects"))
    assert run_command(kill, *places, code=ASKS).returncode == -9
    ended = run_command("live", *places, code=ASKS)
    assert ended.stdout.strip() == end
    assert (tmp_path / "effects").read_text() == "paid " * paid


def test_later_of_an_agent_further_down_is_no_result_of_the_call(tmp_path: Path) -> None:
    class Branch(Agent):
        @action
        async def send(self, n: int) -> str:
            """Send by the bank."""
            return str(await self.ask("Bank", "hand_in", n=n))

    with NativeSpace() as space:
        bank = space.add(Bank())
        space.add(Branch("Branch"))
        model = calling(call("Branch_send"))
        clerk = ReActAgent("clerk", model, discover=["Branch"], journal=str(tmp_path / "runs.db"))
        reply = space.add(clerk).reply_sync("go", run_id="r")
        assert reply.stop_reason == "done"
        assert "its result comes later" in reply.text
        assert bank.done == ["handed in 1"]


class Person:
    """Permits everything, and keeps for whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: Any) -> bool:
        self.asked.append(f"{request.agent}.{request.action}")
        return True


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: str(each.__name__))
def test_agent_without_an_approver_asks_that_of_who_asks_it(shape: Make) -> None:
    person = Person()
    with together(shape, None, call("Bank_pay"), approver=None) as (agent, bank):
        assert "not permitted" in agent.reply_sync("go").text
    with together(shape, None, call("Bank_pay"), approver=None) as (agent, bank):
        agent.approver = person
        assert "paid 1" in agent.reply_sync("go").text
        assert (person.asked, bank.done) == (["Bank.pay"], ["paid 1"])


def test_lax_approver_of_who_asks_never_stands_before_that_of_the_house() -> None:
    house, lax = CallbackApprover(lambda request: False), Person()
    with together(alone, None, call("Bank_pay"), approver=house) as (agent, bank):
        agent.approver = lax
        assert "not permitted" in agent.reply_sync("go").text
        assert (lax.asked, bank.done) == ([], [])


def test_approver_is_found_through_agents_that_have_none_and_only_for_requests() -> None:
    class Branch(Agent):
        @action
        async def pay(self, n: int) -> str:
            """Pay by the bank."""
            return str(await self.ask("Bank", "pay", n=n))

        @action
        async def tell(self, n: int) -> None:
            """Tell the bank to pay."""
            self.send({"to": "Bank", "action": {"name": "pay", "args": {"n": n}}})

    person = Person()
    for name, paid in (("pay", ["paid 1"]), ("tell", [])):
        with NativeSpace() as space:
            bank = space.add(Bank())
            space.add(Branch("Branch"))
            clerk = ReActAgent(
                "clerk", calling(call(f"Branch_{name}")), discover=["Branch"], approver=person
            )
            space.add(clerk).reply_sync("go")
            space.add(Agent("last")).ask("Bank", "help").result()
            assert bank.done == paid
    assert person.asked == ["Bank.pay"]


@action(access_policy=ACCESS_REQUESTED)
async def pay(n: int) -> str:
    """Pay."""
    PAID.append(n)
    return f"paid {n}"


PAID: list[int] = []


def helper(journal: Any, **options: Any) -> ReActAgent:
    return ReActAgent("helper", calling(call("pay")), actions=[pay], journal=journal, **options)


def chief(journal: Any, name: str = "helper", *, actions: Any = (), **options: Any) -> ReActAgent:
    argument = {"content": "go"} if name.endswith("say") else {"text": "go"}
    model = calling(Call("a", name, argument))
    return ReActAgent("chief", model, actions=actions, journal=journal, **options)


Asking = Callable[[ReActAgent, Any], ReActAgent]
ASKING: dict[str, Asking] = {
    "kept": lambda asked, file: chief(file, actions=[asked.as_action()]),
    "fresh": lambda asked, file: chief(file, actions=[asked.as_action(fresh=True)]),
    "fork": lambda asked, file: chief(file, actions=[asked.as_action(fork=True)]),
    "its own say": lambda asked, file: chief(file, "say", actions=[asked]),
    "found in the space": lambda asked, file: chief(file, "helper_say", discover=["helper"]),
}


@contextmanager
def in_one_space(asked: ReActAgent, asking: ReActAgent) -> Iterator[ReActAgent]:
    with NativeSpace() as space:
        space.add(asked)
        yield space.add(asking)


@pytest.mark.parametrize("where", ("none", "same", "other"))
@pytest.mark.parametrize("form", ASKING)
def test_approval_of_an_asked_agent_reaches_a_person_wherever_its_journal_is(
    tmp_path: Path, form: str, where: str
) -> None:
    """Its approver is that of who asks; one run waits, and goes on by itself."""
    PAID.clear()
    file = str(tmp_path / "runs.db")
    own = {"none": None, "same": file, "other": str(tmp_path / "own.db")}[where]

    def make() -> Any:
        asking = ASKING[form](helper(own), file)
        asking.approver = Waiting()
        return in_one_space(helper(own) if "space" in form else asked_of(asking)[0], asking)

    with make() as asking:
        assert asking.reply_sync("go", run_id="r").stop_reason == "waiting"
    with Journal(file) as journal:
        (wait,) = journal.waiting(kind="approval")
        assert (wait.action, PAID) == ("pay", [])
        is_own_run = where == "same" and form not in ("fresh", "fork")
        assert (wait.run != "r") is is_own_run
        journal.answer(wait.run, wait.key, True, by="eva")
    with make() as asking:
        reply = asking.reply_sync("go", run_id="r")
        assert (reply.text, reply.stop_reason, PAID) == ("paid 1", "done", [1])
    with Journal(file) as journal:
        assert len(journal.runs()) == 1 + is_own_run
        assert all(each.state == "done" for each in journal.runs())
    assert not Path(tmp_path / "own.db").exists() or not Journal(tmp_path / "own.db").runs()


ASKED = """
import os, sys
from moothall import *

command, where, prompt, file, other, effects = sys.argv[1:]

async def ring(n: int) -> str:
    with open(effects, "a") as out: out.write("rang ")
    if command == "kill": os.kill(os.getpid(), 9)
    return f"rung {n}"

def said(ms): return [m["content"] for m in ms if m["role"] == "tool"]
def calling(name, **args):
    call = {"name": name, "args": args}
    return ScriptedModel(lambda ms, _: said(ms)[-1] if said(ms) else call)

with NativeSpace() as space:
    work = Action("ring", ring, "Ring.", idempotent=command in ("kill", "live"))
    journal = {"none": None, "same": file, "other": other}[where]
    model = calling("ring", n=1)
    space.add(ReActAgent("helper", model, actions=[work], journal=journal, system_prompt=prompt))
    asking = calling("helper_say", content="go")
    clerk = ReActAgent("clerk", asking, discover=["helper"], journal=file)
    try:
        reply = space.add(clerk).reply_sync("go", run_id="r")
        print(reply.stop_reason, reply.text)
    except RunMismatch as error:
        print("mismatch", error.changed[0])
"""


@pytest.mark.parametrize("where", ("none", "same", "other"))
def test_process_that_dies_while_another_agent_works_goes_on_with_that(
    place: Place, tmp_path: Path, where: str
) -> None:
    """The end of what was asked is that of the call, as with `as_action`; a new prompt waits."""
    effects = tmp_path / "effects"

    def run(command: str, prompt: str = "Help.") -> str:
        places = (place("runs.db"), place("own.db"), str(effects))
        parts = (command, where, prompt, *places)
        ended = run_command(*parts, code=ASKED)
        assert ended.returncode == (-9 if command == "kill" else 0), ended.stderr
        return ended.stdout.strip()

    run("kill")
    assert run("live", "Help briefly.") == "mismatch system prompt"
    assert run("live") == "done rung 1"
    assert effects.read_text() == "rang rang "
    assert run("live", "Help briefly.") == "done rung 1"


def test_call_that_two_have_permitted_at_once_asks_neither_again_after_a_wait(
    tmp_path: Path,
) -> None:
    """A value from outside asks for the clerk, the bank's policy for the bank."""

    class Shop(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def order(self, item: str, context: Context[Any]) -> str:
            """Order an item."""
            return f"{await context.ask_person('Which colour?')} {item}"

    class Asked(Person):
        def answer(self, question: Any) -> Later:
            return Later()

    @action(outside=True)
    async def look() -> str:
        """Look."""
        return "a peculiar kettle"

    def answer(heard: list[dict[str, Any]], _: Any) -> Any:
        calls = [Call("0", "look", {}), Call("1", "Shop_order", {"item": "a peculiar kettle"})]
        return calls[len(results(heard))] if len(results(heard)) < 2 else results(heard)[-1]

    person, file = Asked(), str(tmp_path / "runs.db")
    for end in ("waiting", "done"):
        with NativeSpace(approver=person) as space:
            space.add(Shop("Shop"))
            options = {"actions": [look], "discover": ["Shop"], "journal": file}
            clerk = space.add(ReActAgent("clerk", ScriptedModel(answer), **options))
            reply = clerk.reply_sync("go", run_id="r")
            assert reply.stop_reason == end, reply
        with Journal(file) as journal:
            for wait in journal.waiting("r"):
                journal.answer("r", wait.key, "blue")
    assert person.asked == ["clerk.Shop.order", "Shop.order"]
    assert reply.text == "blue a peculiar kettle"

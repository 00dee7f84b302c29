"""A wrong name in a constructor: the error says which is near. A wrong value: it is shown."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moothall
from moothall import (
    Action,
    Agent,
    AMQPSpace,
    Budget,
    CallbackApprover,
    ChangedArgs,
    ChosenBy,
    CitizenMemory,
    City,
    Clock,
    ConfigError,
    Conversation,
    DefinitionError,
    DualActAgent,
    DualActConfig,
    FallbackModel,
    FileError,
    Goal,
    HandOver,
    Host,
    Journal,
    LocalModel,
    Memory,
    MoothallError,
    NativeSpace,
    OpenAIModel,
    ReActAgent,
    RecordedModel,
    RemoteAgent,
    Researcher,
    ResourcePool,
    RuleApprover,
    ScriptedModel,
    Society,
    SQLiteMemory,
    TokenBoundedMemory,
    check_skill,
    parse_slash,
    show,
)
from moothall.agents import workflow
from moothall.agents.loop import parts
from moothall.foundation.lazily import homes_of
from moothall.serving import A2AAgent, MCPAgent, asgi
from moothall.society import Experiment


class Own:
    def greet(self, name: str) -> str:
        """Greet."""
        return f"Hello, {name}"


class Old:
    name, context_tokens = "old", None

    async def complete(self, prompt: Any) -> str:
        return "Hello."


def agent(**options: Any) -> Any:
    return ReActAgent("a", ScriptedModel(["x"]), **options)


@pytest.mark.parametrize(
    ("make", "told"),
    (
        (lambda: agent(tools=[]), "ReActAgent has no argument tools=: tools= is actions= here"),
        (lambda: agent(instructions="x"), "instructions= is system_prompt= here"),
        (lambda: agent(aprover=None), "aprover= (did you mean 'approver'?)"),
        (lambda: agent(concurency=2), "did you mean 'concurrency'?"),
        (lambda: Action("f", print, policy="permitted"), "did you mean 'access_policy'?"),  # type: ignore[call-arg]
        (lambda: agent(xyzzy=2), "ReActAgent has no argument xyzzy="),
        (lambda: agent(schema=int), "ReActAgent has no argument schema=: its reply(schema=…) has"),
        (lambda: Society(2, step="1h"), "Society has no argument step=: its run(step=…) has"),  # type: ignore[call-arg]
        (lambda: Conversation([agent()], max_turn=3), "did you mean 'max_turns'?"),
        (lambda: DualActConfig(humn=agent(), reactive=agent()), "did you mean 'human'?"),  # type: ignore[call-arg]
        (lambda: Researcher("r", None, tool=[]), "did you mean 'tools'?"),
        (lambda: Agent("a", tols=None), "Agent has no argument tols="),  # type: ignore[call-arg]
        (lambda: AMQPSpace(host="b"), "AMQPSpace has no argument host="),  # type: ignore[call-arg]
        (lambda: Budget(token=5), "Budget has no argument token= (did you mean 'tokens'?)"),  # type: ignore[call-arg]
        (lambda: Budget(dollars=5), "dollars= is usd= here"),  # type: ignore[call-arg]
        (lambda: Budget().child(second=5), "Budget.child has no argument second="),  # type: ignore[call-arg]
        (lambda: NativeSpace(aprover=None), "did you mean 'approver'?"),  # type: ignore[call-arg]
        (lambda: Society(3, sed=1), "did you mean 'seed'?"),  # type: ignore[call-arg]
        (lambda: Budget(100), "Budget: write a name before 100, such as tokens= or usd="),  # type: ignore[misc]
        (
            lambda: agent(budget=0.5),
            "needs an object with reserve, deadline, such as Budget(usd=1)",
        ),
        (lambda: agent(temperature=0), "such as reply(…, options={'temperature': …})"),
        (
            lambda: agent().run("x"),
            "agent 'a': run() is a step of its blocks: ask it by reply(text)",
        ),
        (lambda: City.generate(200), "City.generate: write a name before 200, such as seed="),  # type: ignore[misc,call-arg]
        (lambda: Researcher("r", None, tools=["docs"]), "for a folder, search_folder('docs')"),
        (lambda: ReActAgent("a", Old()), "must have complete(messages, actions=None, schema=None)"),
        (lambda: agent(actions=[Own.greet]), "self is missing: give the method of an object"),
        (lambda: OpenAIModel("x", temprature=1), "did you mean 'temperature'?"),  # type: ignore[call-arg]
        (lambda: agent().register_hook("pre_act", "x", print), "did you mean 'pre_acting'?"),
    ),
)
def test_wrong_name_is_told_with_the_one_that_is_near(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        make()
    assert told in str(raised.value)


def test_model_that_does_not_fit_is_refused_each_time_also_after_one_of_its_class_fitted() -> None:
    class Fits(Old):
        async def complete(self, prompt: Any, actions: Any = None, schema: Any = None) -> str:
            return "Hello."

    ReActAgent("a", Fits())
    changed: Any = Fits()
    changed.complete = Old().complete
    unbound: Any = Fits()
    unbound.complete = Fits.complete  # its self takes the messages, and nothing is the prompt
    for model in (Old(), changed, unbound) * 2:
        with pytest.raises(DefinitionError, match="must have complete"):
            ReActAgent("a", model)
        ReActAgent("a", Fits())


def test_constructor_errors_of_its_own_stay_as_they_are() -> None:
    class Own(Agent):
        def __init__(self, id: str, colour: str) -> None:
            super().__init__(id)
            raise TypeError(f"no {colour}")

    with pytest.raises(TypeError, match="no red"):
        Own("a", colour="red")
    for kind in (Agent, ReActAgent, SQLiteMemory):
        with pytest.raises(TypeError, match=r"missing \d required"):
            kind()


@pytest.mark.parametrize("given", ("no", None, 0))
def test_receive_own_broadcasts_that_is_no_bool_is_refused(given: Any) -> None:
    told = f"agent 'a': receive_own_broadcasts= must be True or False, got {given!r}"
    for make in (Agent, lambda id, **options: ReActAgent(id, ScriptedModel([]), **options)):
        with pytest.raises(ConfigError) as raised:
            make("a", receive_own_broadcasts=given)
        assert str(raised.value) == told


def test_wrong_public_name_is_told_with_the_one_that_is_near() -> None:
    with pytest.raises(AttributeError, match="did you mean 'ReActAgent'"):
        moothall.ReactAgent  # type: ignore[attr-defined]  # noqa: B018


def test_attributes_of_other_libraries_are_told_with_ours() -> None:
    for name, here in (("invoke", "reply_sync(text)"), ("astream", "stream(text)")):
        with pytest.raises(AttributeError) as raised:
            getattr(agent(), name)
        assert f"has no attribute '{name}': {name} is {here} here" in str(raised.value)
    reply = agent().reply_sync("x")
    with pytest.raises(AttributeError, match="Reply has no attribute 'output': output is value"):
        _ = reply.output
    assert not hasattr(reply, "xyzzy")
    assert copy.deepcopy(reply) == reply


@pytest.mark.parametrize("url", ("sqlite:///r.db", "postgresql+psycopg://h/d", "redis://h"))
@pytest.mark.parametrize("make", (Journal, SQLiteMemory))
def test_url_where_a_file_is_named_is_told(make: Any, url: str) -> None:
    with pytest.raises(MoothallError, match="it is a URL: name a file"):
        make(url)


@pytest.mark.parametrize(
    "name",
    ("ChattyAI", "Conversation", "DualActAgent", "OpenAIFunctionAgent", "ReActAgent", "Researcher"),
)
def test_constructor_signatures_have_every_agents_options(name: str) -> None:
    agent_class = getattr(moothall, name)
    parameters = inspect.signature(agent_class).parameters
    of_module = vars(importlib.import_module(homes_of("moothall")[name]))
    named = set(parameters)
    for each in parameters.values():
        if each.kind is each.VAR_KEYWORD:  # `**options: Unpack[…]` names them for editors
            options = str(each.annotation).removeprefix("Unpack[").removesuffix("]")
            named |= set((of_module | vars(workflow) | vars(parts))[options].__annotations__)
    assert {"approver", "deps", "concurrency", "receive_own_broadcasts"} <= named


@pytest.mark.parametrize("method", ("reply", "reply_sync", "stream"))
def test_methods_that_ask_an_agent_show_their_arguments(method: str) -> None:
    named = [*inspect.signature(getattr(agent(), method)).parameters]
    assert named[:4] == ["text", "schema", "thread", "run_id"]
    assert named[4:] == ["options", "tags", "deps", "budget", "history"]


@pytest.mark.parametrize("method", ("reply_sync", "stream"))
def test_misspelt_argument_of_a_reply_is_named(method: str) -> None:
    for wrong, hint in (
        ("budgt", r" \(did you mean 'budget'\?\)"),
        ("seed", r": .*options={'seed'"),
    ):
        with pytest.raises(DefinitionError, match=rf"reply has no argument {wrong}={hint}"):
            getattr(agent(), method)("Hello", **{wrong: 1})


class Clerk(ReActAgent):
    """A user's own."""


@pytest.mark.parametrize(
    ("name", "hint"),
    (
        ("output_type", "output_type= is schema= here"),
        ("response_format", "response_format= is schema= here"),
        ("message_history", "message_history= is history= here"),
        ("usage_limits", "usage_limits= is budget= here"),
        ("thread_id", "thread_id= is thread= here"),
        ("user_id", "user_id= is thread= here"),
        ("response_schema", "response_schema= is schema= here"),
        ("context", "context= is deps= here"),
        ("metadata", "metadata= is tags= here"),
        ("model", "it is given where the agent is made, Clerk(…, model=…)"),
        ("check", "it is given where the agent is made, Clerk(…, check=…)"),
        ("tools", "it is given where the agent is made, Clerk(…, actions=…)"),
        ("max_turns", "it is given where the agent is made, Clerk(…, max_iterations=…)"),
    ),
)
def test_argument_of_another_framework_is_named_in_the_users_class(name: str, hint: str) -> None:
    clerk = Clerk("c", ScriptedModel(["x"]))
    with pytest.raises(DefinitionError) as wrong:
        clerk.reply_sync("Hello", **{name: 1})
    assert str(wrong.value) == f"Clerk.reply has no argument {name}=: {hint}"


@pytest.mark.parametrize(
    ("name", "hint"),
    (
        ("output_type", "its reply(schema=…) has"),
        ("retries", "retries= is tries= here"),
        ("usage_limits", "usage_limits= is budget= here"),
        ("checkpointer", "checkpointer= is journal= here"),
        ("message_history", "its reply(history=…) has"),
        ("max_turns", "max_turns= is max_iterations= here"),
        ("handoffs", "handoffs= is actions= here"),
        ("human_input", "human_input= is approver= here"),
        ("middleware", "middleware= is blocks= here"),
    ),
)
def test_argument_of_another_frameworks_agent_is_named(name: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as wrong:
        Clerk("c", ScriptedModel(["x"]), **{name: 1})
    assert str(wrong.value) == f"Clerk has no argument {name}=: {hint}"


CALLS: dict[str, Callable[[], Any]] = {
    "text": lambda: agent().reply_sync(None),
    "no blocks": lambda: agent().reply_sync([]),
    "block of an object": lambda: agent().reply_sync([object()]),
    "block of a text": lambda: agent().reply_sync(["x"]),
    "block without text": lambda: agent().reply_sync([{"type": "text"}]),
    "thread": lambda: agent().reply_sync("x", thread=""),
    "run_id": lambda: agent().reply_sync("x", run_id=5),
    "interrupt": lambda: agent().interrupt(None),
    "observe": lambda: asyncio.run(agent().observe(5)),
    "show": lambda: asyncio.run(show(None)),  # type: ignore[arg-type]
    "goal's name": lambda: agent(goals=[Goal(1, None, "Be kind.")]),  # type: ignore[arg-type]
    "goal's description": lambda: agent(goals=[Goal(1, "kindness", ["Be kind."])]),  # type: ignore[arg-type]
    "action's description": lambda: Action("add", print, 5),  # type: ignore[arg-type]
    "memory": lambda: Memory().add_memory("x"),  # type: ignore[arg-type]
    "limit of text": lambda: Memory().get_memories("2"),  # type: ignore[arg-type]
    "negative limit": lambda: Memory().get_memories(-1),
    "memory's thread": lambda: Memory().thread(5),  # type: ignore[arg-type]
    "rules": lambda: RuleApprover(5),  # type: ignore[arg-type]
    "arguments that a person changed": lambda: ChangedArgs(["x"]),  # type: ignore[arg-type]
    "slash line": lambda: parse_slash(5),  # type: ignore[arg-type]
    "half a character as a thread": lambda: agent().reply_sync("x", thread="\ud800"),
    "roles of a chooser": lambda: ChosenBy(ScriptedModel(), about=["a"]),  # type: ignore[arg-type]
    "prompt of a chooser": lambda: ChosenBy(ScriptedModel(), prompt=5),  # type: ignore[arg-type]
    "end of a chooser": lambda: ChosenBy(ScriptedModel(), may_end="no"),  # type: ignore[arg-type]
    "roles of a hand-over": lambda: HandOver(about="ab"),  # type: ignore[arg-type]
    "stay of a hand-over": lambda: HandOver(stay=1),  # type: ignore[arg-type]
    "timeout of a remote agent": lambda: RemoteAgent(Agent("a"), "b", timeout=-1),
    "name of a script": lambda: ScriptedModel(name=5),  # type: ignore[arg-type]
    "count of a memory": lambda: TokenBoundedMemory(9, count=5),  # type: ignore[arg-type]
    "resources": lambda: ResourcePool("http://a.example/"),  # type: ignore[arg-type]
    "stream of a citizen": lambda: CitizenMemory(stream="x"),
    "seconds before a clock": lambda: Clock(before="1"),  # type: ignore[arg-type]
    "durability": lambda: Journal("r.db", durability=[]),  # type: ignore[arg-type]
}

PATHS: dict[str, Callable[[str], Any]] = {
    "journal": Journal,
    "memory": SQLiteMemory,
    "recording": lambda path: RecordedModel(ScriptedModel(), path),
    "weights": LocalModel,
    "skill": check_skill,
    "host": lambda path: Host("h", path),
}


@pytest.mark.parametrize("path", ("a\0b", "\ud800"), ids=ascii)
@pytest.mark.parametrize("what", PATHS)
def test_path_that_no_file_can_have_is_refused(what: str, path: str) -> None:
    with pytest.raises(ConfigError if what != "host" else FileError, match="must be"):
        PATHS[what](path)


@pytest.mark.parametrize("what", CALLS)
def test_value_that_is_not_allowed_is_a_config_error(what: str) -> None:
    with pytest.raises(ConfigError):
        CALLS[what]()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    (
        ("max_iterations", "5", "max_iterations= must be a whole number from 1 up"),
        ("max_iterations", 0, "max_iterations= must be a whole number from 1 up"),
        ("system_prompt", 5, "system_prompt= must be a text or a function of the Context"),
    ),
)
def test_attribute_with_a_value_that_is_not_allowed_is_told_before_the_run(
    name: str, value: Any, wanted: str
) -> None:
    changed = agent()
    setattr(changed, name, value)
    with pytest.raises(ConfigError, match=wanted):
        changed.reply_sync("x")


def test_recall_or_a_journal_refuses_a_value_as_a_config_error(tmp_path: Path) -> None:
    with SQLiteMemory(tmp_path / "m.db") as memory, Journal(tmp_path / "r.db") as journal:
        agent(journal=journal).reply_sync("x", run_id="r")
        memory.add_memory({"role": "user", "content": "x"})
        calls: tuple[Callable[[], Any], ...] = (
            lambda: memory.get_memories("2"),  # type: ignore[arg-type]
            lambda: memory.recall(5),  # type: ignore[arg-type]
            lambda: memory.recall("x", limit=-1),
            lambda: memory.recall("x", by="sense"),  # type: ignore[arg-type]
            lambda: journal.entries("r", after="x"),  # type: ignore[arg-type]
            lambda: journal.fork("r", "r"),
            lambda: journal.kept("../r.db"),
            lambda: journal.kept("0" * 64 + "/../r.db"),
            lambda: journal.kept(5),  # type: ignore[arg-type]
            lambda: journal.run(10**30),  # type: ignore[arg-type]
            lambda: journal.decide("r", "repeet"),  # type: ignore[arg-type]
            lambda: journal.decide("r", {1: []}),  # type: ignore[dict-item]
        )
        for call in calls:
            with pytest.raises(ConfigError):
                call()


def nothing() -> None: ...


def many(one: Any, two: Any, three: Any, four: Any) -> None: ...


WITH_A_FUNCTION: dict[str, tuple[Callable[[Any], Any], str]] = {
    "system_prompt": (lambda fn: agent(system_prompt=fn), "a function of (context)"),
    "check": (lambda fn: agent(check=fn), "a function of (value, context)"),
    "hook": (lambda fn: agent().register_hook("pre_reply", "h", fn), "function of (agent, kwargs)"),
    "watch": (lambda fn: agent().watch(fn), "a function of (event)"),
    "observe": (lambda fn: NativeSpace().observe(fn), "a function of (message)"),
    "approver": (CallbackApprover, "CallbackApprover: function must be a function of (request)"),
    "answer": (lambda fn: CallbackApprover(bool, fn), "answer= must be a function of (question)"),
    "next": (lambda fn: Conversation([agent()], next=fn), "next= must be a function of (state)"),
    "until": (lambda fn: Conversation([agent()], until=fn), "must be a function of (state)"),
    "intercept": (lambda fn: Society().intercept(fn), "a function of (message)"),
    "caller": (lambda fn: asgi(agent(), budget=fn), "budget= must be a function of (caller)"),
    "script": (ScriptedModel, "a reply must be a function of (messages, actions)"),
    "scripted": (lambda fn: ScriptedModel(["x", fn]), "must be a function of (messages, actions)"),
    "memory": (lambda fn: agent(memory=fn), "memory= must be a function of (thread)"),
    "tokens": (lambda fn: SQLiteMemory("m.db", count=fn), "count= must be a function of (text)"),
    "when": (lambda fn: FallbackModel([ScriptedModel()], when=fn), "must be a function of (error)"),
    "facts": (lambda fn: Society(facts=fn), "facts= must be a function of (clock)"),
    "decision": (lambda fn: pair().set_decision_func(fn), "of (conclusion, original_input)"),
    "conclusion": (lambda fn: pair().set_conclusion_extractor(fn), "a function of (reply)"),
    "metric": (lambda fn: experiment(metrics=[{"name": "m", "by": fn}]), "function of (society)"),
    "progress": (lambda fn: experiment().run_sync(jobs=0, progress=fn), "function of (progress)"),
}
NO_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "api_key": lambda fn: OpenAIModel("m", "http://127.0.0.1:9/v1", fn),
    "headers": lambda fn: OpenAIModel("m", "http://127.0.0.1:9/v1", headers=fn),
    "headers of MCP": lambda fn: MCPAgent("m", "http://127.0.0.1:9/mcp", headers=fn),
    "headers of A2A": lambda fn: A2AAgent("m", "http://127.0.0.1:9/", headers=fn),
}


def pair() -> Any:
    return DualActAgent(human=agent(), reactive=agent())


def experiment(**more: Any) -> Any:
    town = {"citizens": 2, "step": "6h"}
    given: dict[str, Any] = {"metrics": ["home"], "workflow": [{"run": "6h"}], **more}
    return Experiment(name="e", society=town, **given)


@pytest.mark.parametrize("takes", (nothing, many))
@pytest.mark.parametrize(("make", "says"), WITH_A_FUNCTION.values(), ids=WITH_A_FUNCTION)
def test_function_with_other_parameters_than_it_is_called_with_is_refused_as_it_is_given(
    make: Callable[[Any], Any], says: str, takes: Any
) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as raised:
        make(takes)
    assert f"got {takes.__name__}(" in str(raised.value)


@pytest.mark.parametrize("make", NO_ARGUMENTS.values(), ids=NO_ARGUMENTS)
def test_function_that_wants_what_nobody_gives_is_refused_as_it_is_given(
    make: Callable[[Any], Any],
) -> None:
    with pytest.raises(ConfigError, match=r"must be a function of \(\), got many\("):
        make(many)


def test_functions_that_fit_are_taken_whatever_they_are() -> None:
    def brief(one: Any, two: Any, context: Any) -> str:
        return "Be brief."

    class Says:
        def __call__(self, context: Any, more: int = 3) -> str:
            return "Be brief."

        def prompt(self, context: Any) -> str:
            return "Be brief."

    for fn in (Says(), Says().prompt, lambda *given: "Be brief.", functools.partial(brief, 1, 2)):
        model = ScriptedModel(["x"])
        ReActAgent("a", model, system_prompt=fn).reply_sync("hello")
        assert model.received[0][0]["content"].startswith("Be brief.")
    for check in (str, lambda value: None, lambda value, context: None, print):
        assert agent(check=check).reply_sync("hello").text == "x"

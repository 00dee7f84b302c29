"""The suite of spaces: what agents may rely on, wherever their messages go."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from moothall import (
    ActionError,
    ActionNotFound,
    Agent,
    AgentNotFound,
    AgentStopped,
    CallbackApprover,
    DuplicateAgent,
    InvalidArguments,
    MailboxFull,
    NotInSpace,
    NotPermitted,
    ReActAgent,
    RequestCancelled,
    RequestTimeout,
    ScriptedModel,
    SpaceClosed,
)
from moothall.testing.space_agents import WAIT_S, ListeningAgent, WorkingAgent

SHORT_S = 0.05

MakeSpace: TypeAlias = Callable[..., Any]


class SpaceConformance:
    """What each space does: it carries requests, messages, broadcasts, approvals and errors.

    Derive a class `Test…` from it whose `make` returns a space of yours. The order in which an
    agent handles messages is the space's own matter; say `keeps_order = False` if it is not theirs.
    """

    keeps_order = True
    """Whether an agent handles the messages of one sender in the order in which they were sent."""

    def make(self, **options: Any) -> Any:
        """Return a new space, apart from all others; the suite closes it.

        Args:
            options: `approver=`, or `mailbox=` (how many messages wait for an agent, at most)
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define make: it returns a space of yours"
        )

    @pytest.fixture
    def make_space(self) -> Iterator[MakeSpace]:
        """`make`, whose spaces are closed behind the test."""
        with contextlib.ExitStack() as spaces:

            def make(**options: Any) -> Any:
                space = self.make(**options)
                spaces.callback(space.close)
                return space

            yield make

    @pytest.fixture
    def space(self, make_space: MakeSpace) -> Any:
        """A space without agents."""
        return make_space()

    @pytest.fixture
    def worker(self, space: Any) -> WorkingAgent:
        """The agent `worker` in it."""
        agent: WorkingAgent = space.add(WorkingAgent("worker"))
        return agent

    @pytest.fixture
    def me(self, space: Any) -> ListeningAgent:
        """The agent `me` in it, who asks and listens."""
        agent: ListeningAgent = space.add(ListeningAgent("me", receive_own_broadcasts=False))
        return agent

    # -- requests ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ("add", "add_plainly"))
    def test_space_request_returns_the_value(
        self, me: ListeningAgent, worker: WorkingAgent, name: str
    ) -> None:
        assert me.ask("worker", name, a=1, b=2).result(WAIT_S) == 3

    @pytest.mark.parametrize(
        "value", (None, True, -1.5, 2**70, "", "naïve 日本 \u202e\0", [], {"": [{}]}, "x" * 100_000)
    )
    def test_space_request_carries_any_json_value(
        self, me: ListeningAgent, worker: WorkingAgent, value: Any
    ) -> None:
        assert me.ask("worker", "echo", value=value).result(WAIT_S) == value

    @pytest.mark.parametrize(
        ("to", "name", "args", "error", "text"),
        (
            ("worker", "fail", {}, ActionError, "ZeroDivisionError: division by zero"),
            ("worker", "add", {"a": 1}, InvalidArguments, '"b"'),
            ("worker", "dance", {}, ActionNotFound, "dance"),
            ("worker", "secret", {}, NotPermitted, "secret"),
            ("worker", "delete", {"path": "a"}, NotPermitted, "delete"),
            ("nobody", "add", {}, AgentNotFound, "nobody"),
        ),
    )
    def test_space_request_fails_with_the_error_of_its_kind(
        self,
        me: ListeningAgent,
        worker: WorkingAgent,
        to: str,
        name: str,
        args: dict[str, Any],
        error: type[Exception],
        text: str,
    ) -> None:
        with pytest.raises(error, match=text):
            me.ask(to, name, **args).result(WAIT_S)
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3
        assert me.messages.empty()

    def test_space_request_timeout_ends_the_action(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        request = {"to": "worker", "action": {"name": "hold", "args": {"value": 1}}}
        with pytest.raises(RequestTimeout, match="hold"):
            me.request(request, timeout=SHORT_S).result(WAIT_S)
        assert worker.ended_holds.get(timeout=WAIT_S) == 1
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3

    def test_space_request_cancelled_ends_the_action(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        request = me.ask("worker", "hold", value=1)
        assert worker.begun_holds.get(timeout=WAIT_S) == 1
        request.cancel()
        with pytest.raises(RequestCancelled, match="hold"):
            request.result(WAIT_S)
        assert worker.ended_holds.get(timeout=WAIT_S) == 1
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3

    def test_space_requests_of_several_threads_get_their_own_values(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        values: dict[str, list[Any]] = {}

        def ask(name: str) -> None:
            requests = [me.ask("worker", "echo", value=f"{name}{n}") for n in range(25)]
            values[name] = [request.result(WAIT_S) for request in requests]

        threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * WAIT_S)
        assert values == {name: [f"{name}{n}" for n in range(25)] for name in "abcd"}

    @pytest.mark.parametrize("via", ("", "other"))
    def test_space_action_may_ask_others_and_be_asked_meanwhile(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent, via: str
    ) -> None:
        space.add(WorkingAgent("other"))
        # By way of the other one the worker asks itself, and waits for no turn.
        to = "worker" if via else "other"
        request = me.ask("worker", "pass_on", to=to, value=[1], via=via)
        assert request.result(WAIT_S) == [1]

    def test_space_agent_with_a_model_answers_two_senders_side_by_side(
        self, space: Any, me: ListeningAgent
    ) -> None:
        contents: list[str] = []
        both_asked = asyncio.Event()

        async def answer(messages: list[dict[str, Any]], actions: Any) -> str:
            contents.append(messages[-1]["content"])
            if {"of me", "of the other"} <= {*contents}:
                both_asked.set()
            await asyncio.wait_for(both_asked.wait(), WAIT_S)
            return "both asked"

        space.add(ReActAgent("clerk", ScriptedModel(answer)))
        other = space.add(ListeningAgent("other"))
        # The second one of `me` waits for the first, and delays nobody else.
        requests = [me.ask("clerk", "say", content=content) for content in ("of me", "again")]
        requests.append(other.ask("clerk", "say", content="of the other"))
        assert [request.result(2 * WAIT_S) for request in requests] == ["both asked"] * 3

    def test_space_agents_with_models_ask_each_other_while_both_reply(
        self, space: Any, me: ListeningAgent
    ) -> None:
        asking: list[str] = []
        both_asking = asyncio.Event()

        def add(id: str, other: str) -> None:
            async def consult() -> Any:
                """Ask the other agent, once both are at work."""
                asking.append(id)
                if len(asking) == 2:
                    both_asking.set()
                await asyncio.wait_for(both_asking.wait(), WAIT_S)
                return await agent.ask(other, "say", content="brief")

            def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
                last = messages[-1]
                if last["role"] == "tool":
                    return f"{other} says {last['content']}"
                return f"hello of {id}" if last["content"] == "brief" else {"name": "consult"}

            agent = space.add(ReActAgent(id, ScriptedModel(answer), actions=[consult]))

        add("ada", "bob")
        add("bob", "ada")
        requests = [me.ask(id, "say", content="consult") for id in ("ada", "bob")]
        answers = [request.result(2 * WAIT_S) for request in requests]
        assert answers == ["bob says hello of bob", "ada says hello of ada"]

    def test_space_mailbox_full_refuses_a_request(self, make_space: MakeSpace) -> None:
        space = make_space(mailbox=2)
        worker, me = space.add(WorkingAgent("worker")), space.add(ListeningAgent("me"))
        requests = [me.ask("worker", "hold")]
        worker.begun_holds.get(timeout=WAIT_S)
        requests += [me.ask("worker", "hold") for _ in range(2)]
        with pytest.raises(MailboxFull, match="worker"):
            me.ask("worker", "add", a=1, b=2).result(WAIT_S)
        assert not any(request.done() for request in requests)

    # -- messages ----------------------------------------------------------------------------------

    def test_space_message_arrives_with_its_sender(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        message = {
            "id": "m",
            "meta": {"k": [1]},
            "to": "worker",
            "action": {"name": "say", "args": {"content": {"a": [1.5, None]}}},
        }
        me.send(message)
        assert worker.next_message() == {**message, "from": "me"}

    @pytest.mark.parametrize(
        ("name", "args", "answer", "expected_args"),
        (
            ("add", {"a": 1, "b": 2}, "response", {"data": 3}),
            ("fail", {}, "error", {"error": "ZeroDivisionError: division by zero"}),
            ("secret", {}, "error", {"error": '"worker.secret" not permitted'}),
        ),
    )
    def test_space_message_is_answered_by_response_or_error(
        self,
        me: ListeningAgent,
        worker: WorkingAgent,
        name: str,
        args: dict[str, Any],
        answer: str,
        expected_args: dict[str, Any],
    ) -> None:
        me.send({"id": "m", "to": "worker", "action": {"name": name, "args": args}})
        reply = me.next_message()
        assert (reply["from"], reply["to"], reply["action"]["name"]) == ("worker", "me", answer)
        assert reply["action"]["args"] == {**expected_args, "original_message_id": "m"}

    def test_space_message_and_its_receivers_share_nothing(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        other = space.add(WorkingAgent("other"))
        content = {"list": [1]}
        me.send({"to": "*", "action": {"name": "say", "args": {"content": content}}})
        content["list"].append(2)
        contents = [each.next_message()["action"]["args"]["content"] for each in (worker, other)]
        assert contents == [{"list": [1]}] * 2
        contents[0]["list"].append(3)
        assert contents[1] == {"list": [1]}

    def test_space_messages_of_one_sender_are_all_handled_once(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        for number in range(100):
            me.send({"to": "worker", "action": {"name": "say", "args": {"content": number}}})
        numbers = [worker.next_message()["action"]["args"]["content"] for _ in range(100)]
        assert (numbers if self.keeps_order else sorted(numbers)) == list(range(100))
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3
        assert worker.messages.empty()

    def test_space_broadcast_is_answered_by_each_receiver(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        space.add(WorkingAgent("other"))
        space.add(Agent("without the action"))
        args = {"a": 1, "b": 2}
        me.send({"id": "b", "to": "*", "action": {"name": "add", "args": args}})
        answers = [me.next_message() for _ in range(2)]
        assert sorted(each["from"] for each in answers) == ["other", "worker"]
        expected_args = {"data": 3, "original_message_id": "b"}
        assert [each["action"]["args"] for each in answers] == [expected_args] * 2

    def test_space_broadcast_reaches_its_sender_unless_it_takes_none(
        self, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        for each in (worker, me):  # `me` takes none of its own
            each.send({"to": "*", "action": {"name": "say", "args": {"content": each.id}}})
        for each, expected in ((worker, ["me", "worker"]), (me, ["worker"])):
            senders = [each.next_message()["from"] for _ in expected]
            assert sorted(senders) == expected

    # -- permission --------------------------------------------------------------------------------

    @pytest.mark.parametrize("permits", (True, False))
    def test_space_approver_decides_a_requested_action(
        self, make_space: MakeSpace, permits: bool
    ) -> None:
        requests = []

        def decide(request: Any) -> bool:
            requests.append((request.agent, request.action, request.args))
            return permits

        space = make_space(approver=CallbackApprover(decide))
        space.add(WorkingAgent("worker"))
        request = space.add(ListeningAgent("me")).ask("worker", "delete", path="a")
        if permits:
            assert request.result(WAIT_S) == "deleted a"
        else:
            with pytest.raises(NotPermitted, match="delete"):
                request.result(WAIT_S)
        assert requests == [("worker", "delete", {"path": "a"})]

    # -- who is there ------------------------------------------------------------------------------

    def test_space_refuses_a_second_agent_of_an_id(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        with pytest.raises(DuplicateAgent, match="worker"):
            space.add(WorkingAgent("worker"))
        assert space.ids() == ["me", "worker"]
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3

    def test_space_remove_ends_what_the_agent_does_and_what_waits(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        running = me.ask("worker", "hold", value=1)
        worker.begun_holds.get(timeout=WAIT_S)
        waiting = me.ask("worker", "hold", value=2)
        space.remove("worker")
        for request in (running, waiting):
            with pytest.raises(AgentStopped, match="worker"):
                request.result(WAIT_S)
        assert (worker.ended_holds.get(timeout=WAIT_S), worker.begun_holds.empty()) == (1, True)
        with pytest.raises(AgentNotFound, match="worker"):
            me.ask("worker", "add", a=1, b=2).result(WAIT_S)
        space.add(worker)
        assert me.ask("worker", "add", a=1, b=2).result(WAIT_S) == 3

    def test_space_close_ends_each_request_and_refuses_what_comes(
        self, space: Any, me: ListeningAgent, worker: WorkingAgent
    ) -> None:
        requests = [me.ask("worker", "hold", value=n) for n in range(3)]
        worker.begun_holds.get(timeout=WAIT_S)
        space.close()
        space.close()
        for request in requests:
            with pytest.raises(SpaceClosed):
                request.result(WAIT_S)
        assert space.ids() == []
        with pytest.raises(NotInSpace, match="me"):
            me.ask("worker", "add", a=1, b=2)
        with pytest.raises(SpaceClosed):
            space.add(ListeningAgent("late"))

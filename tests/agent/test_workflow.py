"""The step of an agent, and its blocks: the order, and cleanup whatever came."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from models.openai_server import OpenAIServer, text
from moothall import (
    ACCESS_PERMITTED,
    ActionNotFound,
    Agent,
    Call,
    CitizenAgent,
    ConfigError,
    DefinitionError,
    ModelReply,
    NativeSpace,
    OpenAIModel,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.agents.block import Block
from moothall.agents.dispatch import AgentToolbox, BlockDispatcher
from moothall.agents.params import AgentParams, BlockParams


class Noted(Block):
    """Notes what is called, and fails where it is told to."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        super().__init__()
        self.name = name
        self._log = log
        self._fails = fails

    async def before_forward(self) -> None:
        self._do("before_forward")

    async def forward(self) -> None:
        self._do("forward")

    async def after_forward(self) -> None:
        self._do("after_forward")

    def _do(self, step: str) -> None:
        self._log.append(f"{self.name}.{step}")
        if step == self._fails:
            raise ValueError(f"{self.name} broke")


class Stepping(Agent):
    def __init__(self, log: list[str], blocks: list[Block], fails: str = "") -> None:
        super().__init__("a", blocks=blocks)
        self._log = log
        self._fails = fails

    async def before_forward(self) -> None:
        self._do("before_forward")

    async def forward(self) -> str:
        for block in self.blocks:
            await block.forward()
        self._do("forward")
        return "done"

    async def after_forward(self) -> None:
        self._do("after_forward")

    def _do(self, step: str) -> None:
        self._log.append(step)
        if step == self._fails:
            raise KeyError(step)


def test_step_prepares_acts_and_cleans_up_in_order() -> None:
    log: list[str] = []
    blocks = [Noted("one", log), Noted("two", log)]
    assert asyncio.run(Stepping(log, list(blocks)).run()) == "done"
    assert log == [
        "before_forward",
        "one.before_forward",
        "two.before_forward",
        "one.forward",
        "two.forward",
        "forward",
        "one.after_forward",
        "two.after_forward",
        "after_forward",
    ]


def test_cleanup_of_blocks_passes_over_those_that_have_none() -> None:
    class Plain(Block):
        async def forward(self) -> None:
            pass

    log: list[str] = []
    agent = Stepping(log, [Plain(), Noted("one", log), Plain(), Noted("two", log)])
    asyncio.run(agent.run())
    assert [each for each in log if "before" in each][1:] == [
        "one.before_forward",
        "two.before_forward",
    ]
    assert log[-3:] == ["one.after_forward", "two.after_forward", "after_forward"]


@pytest.mark.parametrize("fails", ("before_forward", "forward"))
def test_cleanup_runs_whatever_failed_and_the_failure_is_raised(fails: str) -> None:
    log: list[str] = []
    agent = Stepping(log, [Noted("one", log), Noted("two", log)], fails)
    with pytest.raises(KeyError) as raised:
        asyncio.run(agent.run())
    assert log[-3:] == ["one.after_forward", "two.after_forward", "after_forward"]
    assert raised.value.__notes__ == [f"in agent 'a': {fails}"]


def test_block_that_cannot_prepare_is_named_and_only_cleanup_follows() -> None:
    log: list[str] = []
    blocks: list[Block] = [Noted("one", log, "before_forward"), Noted("two", log, "after_forward")]
    with pytest.raises(ValueError, match="one broke") as raised:
        asyncio.run(Stepping(log, blocks).run())
    assert log == [
        "before_forward",
        "one.before_forward",
        "one.after_forward",
        "two.after_forward",
        "after_forward",
    ]
    assert raised.value.__notes__ == [
        "in agent 'a', block 'one': before_forward",
        "then, in the cleanup: ValueError: two broke (in agent 'a', block 'two': after_forward)",
    ]


def test_block_that_fails_is_named_and_keeps_no_other_from_cleaning_up() -> None:
    log: list[str] = []
    blocks: list[Block] = [Noted("one", log, "after_forward"), Noted("two", log, "after_forward")]
    with pytest.raises(ValueError, match="one broke") as raised:
        asyncio.run(Stepping(log, blocks).run())
    assert log[-3:] == ["one.after_forward", "two.after_forward", "after_forward"]
    assert raised.value.__notes__[0] == "in agent 'a', block 'one': after_forward"
    assert "two broke" in raised.value.__notes__[1]


def test_failure_that_came_first_is_raised_and_later_ones_are_its_notes() -> None:
    log: list[str] = []
    agent = Stepping(log, [Noted("one", log, "after_forward")], "forward")
    with pytest.raises(KeyError) as raised:
        asyncio.run(agent.run())
    assert any("one broke" in note for note in raised.value.__notes__)
    agent = Stepping([], [], "after_forward")
    with pytest.raises(KeyError) as raised:
        asyncio.run(agent.run())
    assert raised.value.__notes__ == ["in agent 'a': after_forward"]


def test_step_that_is_cancelled_cleans_up() -> None:
    log: list[str] = []

    class Waiting(Stepping):
        async def forward(self) -> Any:
            started.set()
            await asyncio.Event().wait()

    async def main() -> None:
        nonlocal started
        started = asyncio.Event()
        task = asyncio.create_task(Waiting(log, [Noted("one", log)]).run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started: asyncio.Event
    asyncio.run(main())
    assert log[-2:] == ["one.after_forward", "after_forward"]


async def _noted() -> None:
    raise ValueError("assigned")


def test_step_assigned_to_one_block_is_called_too() -> None:
    block = Block()
    block.after_forward = _noted  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="assigned"):
        asyncio.run(Stepping([], [block]).after_blocks())


def test_step_that_is_no_coroutine_function_is_told_so() -> None:
    class Plain(Agent):
        def forward(self) -> Any:
            return None

    with pytest.raises(TypeError) as raised:
        asyncio.run(Plain("a").run())
    assert raised.value.__notes__ == ["in agent 'a': forward, which must be `async def`"]


@pytest.mark.parametrize("blocks", ([Block], ["walk"], "walk", Block(), 5))
def test_agent_wrong_blocks_are_refused(blocks: Any) -> None:
    with pytest.raises(DefinitionError, match="agent 'a': blocks= must be blocks, got"):
        Agent("a", blocks=blocks)


def test_toolbox_that_is_a_model_is_refused() -> None:
    with pytest.raises(DefinitionError, match="agent 'a': toolbox= must be an AgentToolbox, got"):
        Agent("a", toolbox=ScriptedModel(["x"]))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ("model", "embedder"))
def test_toolbox_of_a_part_that_is_none_is_refused(kind: str) -> None:
    for wrong in (5, ScriptedModel):
        with pytest.raises(ConfigError, match=rf"^{kind}= must be an? {kind}.*, got"):
            AgentToolbox(**{kind: wrong})


def test_toolbox_of_an_unknown_argument_names_the_nearest() -> None:
    with pytest.raises(DefinitionError, match="AgentToolbox has no argument llm=: llm= is model="):
        AgentToolbox(llm=None)  # type: ignore[call-arg]


def test_dispatcher_wrong_prompt_and_wrong_blocks_are_refused() -> None:
    with pytest.raises(ConfigError, match="block_dispatch_prompt must be a text, got 3"):
        BlockDispatcher(None, 3)  # type: ignore[arg-type]
    for wrong in ("legs", [3], [Block], None):
        with pytest.raises(DefinitionError, match="register_blocks takes blocks, got"):
            BlockDispatcher().register_blocks(wrong)  # type: ignore[arg-type]


def test_block_class_of_wrong_actions_or_name_is_refused_where_it_is_defined() -> None:
    for wrong in (["walk"], {"walk": 3}, {1: "walks"}):
        with pytest.raises(DefinitionError, match=r"Legs\.actions must be texts by name, got"):
            type("Legs", (Block,), {"actions": wrong})
    with pytest.raises(DefinitionError, match=r"Legs\.name must be a text, got 3"):
        type("Legs", (Block,), {"name": 3})


def test_agent_or_block_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="agent 'a': Agent must define"):
        asyncio.run(Agent("a").run())
    with pytest.raises(NotImplementedError, match="Block must define"):
        asyncio.run(Block().forward())


def test_block_describes_its_actions_and_what_is_stated_by_hand() -> None:
    class Walking(Block):
        actions = {"dream": "only forward does this"}  # noqa: RUF012 - as users write it

        @action
        async def walk(self, to: str) -> str:
            """Walk to a place.

            Args:
                to: where
            """
            return to

    class Running(Walking):
        name = "legs"

        @action
        async def run_to(self, to: str) -> str:
            """Run to a place.

            Args:
                to: where
            """
            return to

    assert Walking().name == "Walking"
    assert Walking.actions == {"dream": "only forward does this", "walk": "Walk to a place."}
    assert Running().name == "legs"
    assert Running.actions.keys() == {"dream", "walk", "run_to"}
    assert Block.actions == {}


def test_block_has_parameters_of_its_type() -> None:
    class SpeedParams(BlockParams):
        speed: float = 1.4

    class Legs(Block):
        ParamsType = SpeedParams

    assert Legs().params == SpeedParams(speed=1.4, block_memory=None)
    given = SpeedParams(speed=2.0, block_memory={"home": "here"})
    assert Legs(block_params=given).params is given
    assert Legs(block_params={"speed": 2}).params == SpeedParams(speed=2.0)
    with pytest.raises(ConfigError, match=r"SpeedParams.speed: .* number, .* got 'fast'"):
        Legs(block_params={"speed": "fast"})
    with pytest.raises(ConfigError, match=r"SpeedParams.sped: .* not permitted, got 2"):
        Legs(block_params={"sped": 2})
    with pytest.raises(
        ConfigError, match=r"Legs: block_params= must be SpeedParams or a dict .*, got Bl"
    ):
        Legs(block_params=BlockParams())


# -- what a block gives its agent ------------------------------------------------------------------


class Legs(Block):
    """Moves."""

    name = "legs"
    description = "moves through the town"

    @action(access_policy=None)
    async def walk(self, to: str) -> str:
        """Walk to a place.

        Args:
            to: where
        """
        return f"walked to {to}"

    @action(access_policy=ACCESS_PERMITTED)
    async def wave(self) -> str:
        """Wave at who asks."""
        return "waved"


def test_block_actions_are_its_agents_and_offered_where_a_policy_is_stated() -> None:
    walker = ReActAgent(
        "walker",
        ScriptedModel([ModelReply(calls=(Call("1", "legs_walk", {"to": "school"}),)), "Done."]),
        blocks=[Legs()],
    )
    for agent in (walker, Agent("plain", blocks=[Legs()])):
        assert set(agent.actions.actions) == {"legs.walk", "legs.wave"}
    assert walker.reply_sync("Go.").steps[0].result["result"] == "walked to school"
    assert set(walker.offers) == {"say", "legs.wave"}
    with NativeSpace() as space:
        space.add(walker)
        me = space.add(Agent("me"))
        assert me.ask("walker", "legs.wave").result(timeout=5) == "waved"
        assert "legs.wave" in me.ask("walker", "help").result(timeout=5)
        with pytest.raises(ActionNotFound, match=r'"legs.walk" not found on "walker"'):
            me.ask("walker", "legs.walk", to="school").result(timeout=5)


# -- dispatching -----------------------------------------------------------------------------------


class Talk(Block):
    name = "talk"
    description = "talks with friends and neighbours"


def test_subclass_takes_an_action_away_by_a_value_that_is_no_method() -> None:
    class Clerk(Agent):
        @action
        async def say(self, content: str) -> None:
            """Say something."""

        @action
        async def file(self) -> None:
            """File it."""

    class Mute(Clerk):
        say: Any = None

    assert [*Clerk("a").offers] == ["say", "file"]
    assert [*Mute("a").offers] == ["file"]


def test_blocks_with_one_action_name_are_refused_rather_than_one_be_lost() -> None:
    class Till(Block):
        @action(access_policy=ACCESS_PERMITTED)
        def pay(self, amount: int) -> int:
            """Pay."""
            return amount

    first, second = Till(), Till()
    agent = Agent("a", blocks=[first, second])
    with pytest.raises(DefinitionError, match=r"two blocks have the action 'Till\.pay'"):
        agent.actions.get_actions()
    with NativeSpace() as space, pytest.raises(DefinitionError, match="two blocks"):
        space.add(agent)
    second.name = "Second"
    actions = Agent("b", blocks=[first, second]).actions.get_actions()
    assert [each.name for each in actions] == ["Till.pay", "Second.pay"]


async def test_dispatcher_without_a_model_chooses_the_block_with_most_words_in_common() -> None:
    dispatcher = BlockDispatcher()
    dispatcher.register_blocks([Legs(), Talk()])
    assert (await dispatcher.dispatch("I want to talk with my friends")).name == "talk"
    assert (await dispatcher.dispatch({"intention": "walk to the town"})).name == "legs"
    assert (await dispatcher.dispatch({"a set of bytes": {b"walk"}})).name == "legs"
    assert await dispatcher.dispatch("sleep, or go to a") is None
    assert [each.block for each in dispatcher.decisions] == ["talk", "legs", "legs", None]


def test_dispatcher_reads_a_name_as_words_and_the_first_of_equal_scores_wins() -> None:
    class FarTravelBlock(Block):
        pass

    class Second(Block):
        description = "far_off travel"

    for blocks in ([FarTravelBlock(), Second()], [Second(), FarTravelBlock()]):
        dispatcher = BlockDispatcher()
        dispatcher.register_blocks(blocks)
        assert dispatcher.by_rule({"do": "Travel", "how": "far"}) is blocks[0]
        assert dispatcher.by_rule("the block") is blocks[isinstance(blocks[0], Second)]
        assert [each.reason for each in dispatcher.decisions] == ["by rule, 2", "by rule, 1"]


async def test_dispatcher_lets_a_block_say_how_well_it_fits() -> None:
    class Always(Block):
        name = "always"

        def fits(self, context: Any) -> float:
            return 0.5

    class Undescribed(Block):
        name = "undescribed"
        description = None  # type: ignore[assignment]

    dispatcher = BlockDispatcher()
    dispatcher.register_blocks([Legs(), Always(), Undescribed()])
    assert (await dispatcher.dispatch("nothing")).name == "always"
    assert (await dispatcher.dispatch("undescribed")).name == "undescribed"
    assert (await dispatcher.dispatch("walk")).name == "legs"

    class Broken(Always):
        name = "broken"
        fits: Any = lambda self, context: "high"

    dispatcher.register_blocks([Broken()])
    with pytest.raises(ValueError, match="high") as raised:
        await dispatcher.dispatch("walk")
    assert raised.value.__notes__ == ["in block 'broken': fits"]

    Broken.fits = lambda self, context: float("nan")
    with pytest.raises(ValueError, match="must be a number, got nan") as raised:
        await dispatcher.dispatch("walk")
    assert raised.value.__notes__ == ["in block 'broken': fits"]


def test_dispatcher_keeps_a_thousand_decisions_and_one_block_of_each_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fly = '{"block": "fly", "reason": "%s"}' % ("x" * 600)
    dispatcher = BlockDispatcher(ScriptedModel([fly, fly, "no idea", "no idea", fly, fly]))
    assert asyncio.run(dispatcher.dispatch("Now?")) is None
    assert dispatcher.decisions[0].reason == "no block fits by rule"
    talk = Talk()
    dispatcher.register_blocks([talk, talk])
    with pytest.raises(ConfigError, match="two blocks are named 'talk': give one another name"):
        dispatcher.register_blocks([Talk()])
    assert asyncio.run(dispatcher.dispatch("Now?")) is None
    assert "'fly'" in dispatcher.decisions[1].reason
    for _ in range(2):
        assert asyncio.run(dispatcher.dispatch("Now?")) is None
    assert [each.getMessage() for each in caplog.records] == [
        "the model's answer names 'fly': there is no such block; there are talk"
    ]  # later ones at DEBUG
    for _ in range(1000):
        assert dispatcher.by_rule("talk with friends") is talk  # even if there is a model
    assert len(dispatcher.decisions) == 1000
    assert {each.reason for each in dispatcher.decisions} == {"by rule, 3"}
    citizen = CitizenAgent(1, blocks=[talk])  # there may be a million of them
    for _ in range(20):
        citizen.dispatcher.by_rule("talk with friends")
    assert len(citizen.dispatcher.decisions) == 10


@pytest.mark.parametrize(
    ("answer", "block", "reason", "given"),
    (
        ('{"block": "talk", "reason": "lonely"}', "talk", "lonely", None),
        ('{"to_do": "chat", "blocks": {"legs": "no", "talk": "yes"}}', "talk", "chat", None),
        ('{"to_do": "cook", "blocks": {"legs": "no", "talk": "no"}}', None, "cook", None),
        ('{"to_do": "?", "blocks": {"fly": "yes"}}', None, "the model's answer names 'fly'", "{"),
        ('```json\n{"block": null, "reason": "tired"}\n```', None, "tired", None),
        (
            '{"block": "fly", "reason": "wings"}',
            None,
            "the model's answer names 'fly'",
            '{"block": "fly", "reason": "wings"}',
        ),
        ("talk", None, "the model's answer names no block: not JSON", "talk"),
        (
            '{"block": ["talk"], "reason": ""}',
            None,
            "the model's answer names",
            '{"block": ["talk"], "reason": ""}',
        ),
        ('{"name": "talk"}', None, "the model's answer names no block: {", '{"name": "talk"}'),
    ),
)
def test_dispatcher_model_chooses_among_the_names_or_none(
    answer: str, block: str | None, reason: str, given: str | None
) -> None:
    model = ScriptedModel([answer] * 2)
    agent = Agent("a", toolbox=AgentToolbox(model), blocks=[Legs(), Talk()])
    chosen = asyncio.run(agent.dispatcher.dispatch("What now?"))
    assert (chosen and chosen.name) == block
    (decision,) = agent.dispatcher.decisions
    assert decision.block == block
    assert decision.reason.startswith(reason)
    assert (decision.given or "")[: len(given or "")] == (given or "")
    shown = model.received[0][1]["content"]
    assert "moves through the town" in shown
    assert '"situation": "What now?"' in shown


def test_dispatcher_takes_of_several_that_the_model_names_the_one_that_fits_best() -> None:
    class Fitting(Block):
        def __init__(self, name: str, score: float) -> None:
            super().__init__()
            self.name = name
            self.score = score

        def fits(self, context: Any) -> float:
            return self.score

        async def forward(self) -> None:
            pass

    answer = '{"to_do": "act", "blocks": {"good": "yes", "best": "yes", "fair": "yes"}}'
    model = ScriptedModel([answer] * 2)
    dispatcher = BlockDispatcher(model)
    scores = {"good": 2.0, "best": 3.0, "no": 0.0, "fair": 1.0}
    dispatcher.register_blocks([Fitting(*each) for each in scores.items()])
    assert asyncio.run(dispatcher.dispatch("Now?")).name == "best"
    offered = json.loads(model.received[0][1]["content"])["blocks"]
    assert [each["block"] for each in offered] == ["good", "best", "fair"]  # a score of 0 never


def test_dispatcher_asks_once_more_after_an_answer_that_names_no_block() -> None:
    model = ScriptedModel(["Let us fly!", '{"block": "talk", "reason": "lonely"}'])
    agent = Agent("a", toolbox=AgentToolbox(model), blocks=[Legs(), Talk()])
    assert asyncio.run(agent.dispatcher.dispatch("What now?")).name == "talk"
    assert [each.block for each in agent.dispatcher.decisions] == ["talk"]
    assert "Your answer names no block" in model.received[1][-1]["content"]


def test_dispatcher_with_a_prompt_of_ones_own_asks_for_the_name_of_a_block_or_none() -> None:
    with OpenAIServer(text('{"block": "talk", "reason": "lonely"}')) as server:
        dispatcher = BlockDispatcher(OpenAIModel("m", server.url), "Which block is to act?")
        dispatcher.register_blocks([Legs(), Talk()])
        assert asyncio.run(dispatcher.dispatch("What now?")).name == "talk"
    (request,) = server.requests
    assert request.body["messages"][0]["content"] == "Which block is to act?"
    form = request.body["response_format"]["json_schema"]["schema"]
    assert form["properties"]["block"] == {"enum": ["legs", "talk", None]}
    assert form["required"] == ["reason", "block"]


class Small(ScriptedModel):
    """A model in this process."""

    in_process = True


def test_dispatcher_model_that_repeats_an_example_of_its_prompt_is_asked_again() -> None:
    model = Small(
        [
            '{"to_do": "load the crates", "blocks": {"legs": "yes", "talk": "no"}}',
            '{"to_do": "chat", "blocks": {"legs": "no", "talk": "no"}}',
        ]
    )
    agent = Agent("a", toolbox=AgentToolbox(model), blocks=[Legs(), Talk()])
    assert asyncio.run(agent.dispatcher.dispatch("What now?")) is None
    assert "repeats an example" in model.received[1][-1]["content"]
    assert agent.dispatcher.decisions[0].reason == "chat"


def test_dispatcher_reason_has_an_end_so_that_a_small_model_answers_in_whole() -> None:
    class Rambling:
        async def complete(
            self, messages: Any, actions: Any = (), schema: Any = None
        ) -> ModelReply:
            longest = schema["properties"]["to_do"].get("maxLength", 10_000)
            said = {"to_do": ("and so on " * 1000)[:longest], "blocks": {"legs": "yes"}}
            text = json.dumps(said)
            return ModelReply(text=text[:2000])  # what its max_tokens leave

    agent = Agent("a", toolbox=AgentToolbox(Rambling()), blocks=[Legs()])
    chosen = asyncio.run(agent.dispatcher.dispatch("What now?"))
    assert chosen is not None
    assert chosen.name == "legs"


def test_agent_has_what_it_was_given_and_defaults_else() -> None:
    class OwnParams(AgentParams):
        speed: float = 1.0

    class Own(Agent):
        ParamsType = OwnParams

    model = ScriptedModel()
    toolbox = AgentToolbox(model=model, environment="town")
    agent = Own(1, "John", "citizen", toolbox, {"home": "here"}, OwnParams(speed=2.0), [Legs()])
    assert (agent.id, agent.name, agent.type, agent.llm) == (1, "John", "citizen", model)
    assert toolbox.llm is model
    assert agent.memory == {"home": "here"}
    assert agent.params.speed == 2.0
    assert Own(2).params == OwnParams()
    assert Own(2, agent_params={"speed": 3.0}).params == OwnParams(speed=3.0)
    with pytest.raises(ConfigError, match=r"OwnParams.sped: .* not permitted, got 3.0"):
        Own(2, agent_params={"sped": 3.0})
    for kind in (AgentParams, BlockParams, OwnParams):
        with pytest.raises(ValueError, match="sped"):
            kind(sped=3.0)
    assert "block" in Agent(3).params.block_dispatch_prompt
    agent.params.block_dispatch_prompt = "Choose."
    assert agent.dispatcher.prompt == "Choose."
    # As seed 000 writes it in an agent's own `__init__`.
    agent.params = AgentParams(block_dispatch_prompt="Pick.")
    agent.dispatcher = BlockDispatcher(agent.llm, agent.params.block_dispatch_prompt)
    agent.dispatcher.register_blocks(agent.blocks)
    assert (agent.dispatcher.prompt, [*agent.dispatcher.blocks]) == ("Pick.", ["legs"])
    assert agent.dispatcher.llm is agent.blocks[0].llm is model
    own = Block(llm="own", environment="city")
    Agent("b", toolbox=toolbox, blocks=[own])
    assert (own.llm, own.environment, own.agent.id) == ("own", "city", "b")
    assert Block().llm is None

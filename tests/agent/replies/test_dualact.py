"""The dual act: who is asked what, in which order, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from moothall import (
    Action,
    ActionError,
    Agent,
    Budget,
    BudgetExceeded,
    Call,
    Conclusion,
    ConclusionReached,
    ConfigError,
    Conversation,
    DecisionAction,
    DecisionMade,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    Memory,
    ModelReply,
    NativeSpace,
    Person,
    ReActAgent,
    Reply,
    ScriptedModel,
    Usage,
)

WAIT = 20


def decide(action: str, instruction: str = "", reasoning: str = "because") -> str:
    """A decision as a model spells it."""
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": reasoning})


GO = decide("CONTINUE", "Count the files.")
DONE = decide("TERMINATE", reasoning="all is well")


def two(
    decisions: list[Any], works: list[Any], actions: Any = None, **config: Any
) -> tuple[DualActAgent, ScriptedModel, ScriptedModel]:
    options = {name: config.pop(name) for name in ("id", "budget") if name in config}
    h, r = ScriptedModel(decisions), ScriptedModel(works)
    human = ReActAgent("H", h)
    reactive = ReActAgent("R", r, actions=actions)
    return DualActAgent(DualActConfig(human, reactive, **config), **options), h, r


def asked(model: ScriptedModel) -> list[str]:
    """What a model was asked last, each time."""
    return [messages[-1]["content"] for messages in model.received]


# -- the tests of the specification ----------------------------------------------------------------


def test_basic_execution() -> None:
    dual, _, _ = two([GO, DONE], ["There are 3 files."])
    reply = dual.reply_sync("How many files are there?")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("There are 3 files.", "terminated", 1)


def test_reply_without_a_review_has_no_decisions() -> None:
    dual, _, r = two([DONE], ["There are 3 files."])

    def refuse(agent: Any, kwargs: dict[str, Any]) -> None:
        raise ValueError("closed today")

    dual.register_hook("pre_reply", "refuse", refuse)
    for reply in (dual.reply_sync("Count."), ReActAgent("R", r).reply_sync("Count.")):
        assert (reply.decisions, reply.conclusions, reply.r_runs) == ((), (), 0)
        assert reply.human_usage.total == reply.reactive_usage.total == 0


def test_multi_loop() -> None:
    dual, _, r = two([GO, GO, GO, DONE], ["one", "two", "three"])
    reply = dual.reply_sync("Count.")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("three", "terminated", 3)
    assert [each.summary for each in reply.conclusions] == ["one", "two", "three"]
    assert [each.action.value for each in reply.decisions] == ["CONTINUE"] * 3 + ["TERMINATE"]
    assert len(r.received) == 3


def test_max_loops() -> None:
    dual, h, r = two([GO] * 9, ["a", "b", "c"], max_hr_loops=3)
    reply = dual.reply_sync("Count.")
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("c", "max_loops", 3)
    # H judges the last conclusion too.
    assert (len(h.received), len(r.received)) == (4, 3)
    assert "did not accept after 3 runs" in reply.detail


# -- the order -------------------------------------------------------------------------------------


def test_h_is_given_the_task_first_and_may_end_it_there() -> None:
    dual, h, r = two([decide("TERMINATE", reasoning="There is nothing to do.")], [])
    reply = dual.reply_sync("Do nothing.")
    assert (reply.text, reply.r_runs, reply.stop_reason) == (
        "There is nothing to do.",
        0,
        "terminated",
    )
    assert "| Do nothing." in asked(h)[0]
    assert r.received == []


def test_r_is_first_where_that_is_said() -> None:
    dual, h, r = two([DONE], ["There are 3 files."], first="reactive")
    reply = dual.reply_sync("How many files are there?")
    assert (reply.text, reply.r_runs, len(reply.decisions)) == ("There are 3 files.", 1, 1)
    assert asked(r) == ["How many files are there?"]
    assert "| There are 3 files." in asked(h)[0]


def test_r_is_told_the_instruction_and_a_change_of_approach() -> None:
    dual, _, r = two(
        [GO, decide("REDIRECT", "Use list_files.", "guessing is no counting"), DONE], ["7", "3"]
    )
    dual.reply_sync("How many files are there?")
    first, second = asked(r)
    assert first.startswith("Count the files.\n")
    assert "How many files are there?" in first
    assert second.startswith("Change your approach; do not continue what you did before.")
    assert "Why: guessing is no counting" in second
    assert "From now on: Use list_files." in second


def test_dualact_change_of_approach_is_said_once() -> None:
    dual, _, r = two([GO, decide("REDIRECT", "Use list_files."), GO, DONE], ["7", "3", "3"])
    dual.reply_sync("How many files are there?")
    assert ["Change your approach" in each for each in asked(r)] == [False, True, False]


def test_dualact_without_an_instruction_gives_r_the_task() -> None:
    dual, _, r = two([decide("CONTINUE"), DONE], ["3"])
    dual.reply_sync("How many files are there?")
    assert asked(r) == ["How many files are there?"]


def test_dualact_h_of_ones_own_may_give_its_decision_as_the_value() -> None:
    class Clerk:
        id = "clerk"

        async def reply(self, text: str) -> Reply:
            return Reply("I accept.", {"action": "TERMINATE", "new_instruction": ""})

    worker = ReActAgent("R", ScriptedModel(["three"]))
    reply = DualActAgent(human=Clerk(), reactive=worker, first="reactive").reply_sync("Count.")
    assert (reply.stop_reason, reply.text) == ("terminated", "three")


def test_h_sees_what_r_really_called() -> None:
    def count(folder: str) -> int:
        """Count the files."""
        if folder == "nowhere":
            raise FileNotFoundError("there is no nowhere")
        return 3

    dual, h, _ = two(
        [GO, DONE],
        [
            [
                {"name": "count", "args": {"folder": "here"}},
                {"name": "count", "args": {"folder": "nowhere"}},
            ],
            "There are 1000 files.",
        ],
        actions=[count],
    )
    reply = dual.reply_sync("How many files are there?")
    shown = asked(h)[1]
    assert "| There are 1000 files." in shown
    assert '| count {"folder": "here"} gave: 3' in shown
    assert '| count {"folder": "nowhere"} failed: there is no nowhere' in shown
    assert [step.action for step in reply.steps] == ["count", "count"]
    assert reply.conclusions[0].evidence[0]["result"] == "3"


def test_long_evidence_is_cut_and_says_so() -> None:
    def read() -> str:
        """Read."""
        return "x" * 1_000_000

    dual, h, _ = two([GO, DONE], [{"name": "read"}, "read it"], actions=[read])
    dual.reply_sync("Read.")
    assert len(asked(h)[1]) < 5000
    assert "[cut: the first 1000 of 1000000 characters]" in asked(h)[1]


def test_h_is_shown_the_last_fifty_calls() -> None:
    def count(number: int) -> int:
        """Count."""
        return number

    calls = [{"name": "count", "args": {"number": number}} for number in range(51)]
    worker = ReActAgent("R", ScriptedModel([*calls, "counted"]), actions=[count], max_iterations=52)
    dual = DualActAgent(DualActConfig(ReActAgent("H", ScriptedModel([GO, DONE])), worker))
    (conclusion,) = dual.reply_sync("Count.").conclusions
    assert [each["result"] for each in conclusion.evidence] == [*map(str, range(1, 51))]


def test_usage_of_both_is_kept_apart() -> None:
    dual, _, _ = two(
        [ModelReply(GO, usage=Usage(10, 1)), ModelReply(DONE, usage=Usage(20, 2))],
        [ModelReply("3", usage=Usage(100, 7))],
    )
    reply = dual.reply_sync("Count.")
    assert (reply.human_usage, reply.reactive_usage) == (Usage(30, 3), Usage(100, 7))
    assert reply.usage == Usage(130, 10)


# -- decisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    (
        "decision: TERMINATE",
        "TERMINATE",
        f"Accepted:\n```json\n{DONE}\n```",
        f"```json\n{DONE}\n```\n```json\n{DONE}\n```",
        f"{DONE}{DONE}",
        f"I think: {DONE}",
        '{"action": "TERMINATE"}',
        '{"action": "terminate", "new_instruction": "", "reasoning": ""}',
        '{"action": "TERMINATE", "new_instruction": "", "reasoning": "", "extra": 1}',
        '{"action": ["TERMINATE"], "new_instruction": "", "reasoning": ""}',
        '{"action": "TERMINATE", "new_instruction": null, "reasoning": ""}',
        '["TERMINATE"]',
        "null",
        '"TERMINATE"',
        '{"action": "TERMINATE", "action": "CONTINUE", "new_instruction": "", "reasoning": ""}',
    ),
)
def test_dualact_unreadable_decision_is_never_taken_for_one(said: str) -> None:
    dual, h, _ = two([GO, said, said, DONE], ["done something"])
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.text, reply.r_runs) == ("unreadable", "done something", 1)
    assert len(reply.decisions) == 1
    # Asked for once more, with the fault, and then no more.
    assert len(h.received) == 3
    assert "Your answer" in asked(h)[2]

    dual, _, _ = two([GO, said, DONE], ["done something"])
    assert dual.reply_sync("Count.").stop_reason == "terminated"


@pytest.mark.parametrize(
    "said",
    (
        f"```json\n{DONE}\n```",
        f"\n```\n{DONE}\n```\n",
        '{"action": "TERMINATE", "new_instruction": ""}',
    ),
)
def test_dualact_decision_in_a_fence_or_without_reasoning_is_read(said: str) -> None:
    dual, h, _ = two([GO, said], ["done something"])
    assert dual.reply_sync("Count.").stop_reason == "terminated"
    assert len(h.received) == 2


@pytest.mark.parametrize("form", ("sync", "async"))
def test_dualact_function_may_decide(form: str) -> None:
    seen: list[tuple[Conclusion | None, Any]] = []

    def plain(conclusion: Conclusion | None, original: Any) -> HumanDecision:
        seen.append((conclusion, original))
        if conclusion is None:
            return HumanDecision(DecisionAction.CONTINUE, "Count.")
        return HumanDecision(DecisionAction.TERMINATE, reasoning="fine")

    async def later(conclusion: Conclusion | None, original: Any) -> HumanDecision:
        await asyncio.sleep(0)
        return plain(conclusion, original)

    dual, h, _ = two([], ["3"])
    dual.set_decision_func(plain if form == "sync" else later)
    reply = dual.reply_sync("How many?")
    assert (reply.text, reply.stop_reason) == ("3", "terminated")
    assert [original for _, original in seen] == ["How many?"] * 2
    assert seen[0][0] is None
    assert seen[1][0] is not None
    assert seen[1][0].summary == "3"
    assert h.received == []


# -- conclusions -----------------------------------------------------------------------------------


def test_dualact_conclusion_in_its_parts_is_read() -> None:
    said = {
        "summary": "Counted.",
        "steps": ["listed", "counted"],
        "suggested_next_action": "count again",
        "confidence": 0.9,
        "artifacts": {"count": 3},
    }
    dual, h, _ = two([GO, DONE], [json.dumps(said)])
    reply = dual.reply_sync("Count.")
    (conclusion,) = reply.conclusions
    assert conclusion.to_json() == {**said, "evidence": [], "error": None}
    assert reply.text == "Counted."
    for shown in ("| Counted.", "| - listed", "confidence: 0.9", "[R suggests: count again]"):
        assert shown in asked(h)[1]


@pytest.mark.parametrize("text", ("3 files", '{"count": 3}', "[1]", '{"summary": "x", "other": 1}'))
def test_dualact_conclusion_of_any_other_text_is_a_summary_without_confidence(text: str) -> None:
    dual, h, _ = two([GO, DONE], [text])
    (conclusion,) = dual.reply_sync("Count.").conclusions
    assert conclusion == Conclusion(text)
    assert conclusion.confidence is None
    assert "confidence: not stated" in asked(h)[1]


@pytest.mark.parametrize("confidence", (1.5, -0.1, "high", True))
def test_dualact_confidence_outside_of_0_to_1_is_refused_and_asked_for_again(
    confidence: Any,
) -> None:
    wrong = json.dumps({"summary": "Counted.", "confidence": confidence})
    right = json.dumps({"summary": "Counted.", "confidence": 1})
    look = {"name": "same"}
    works = [look, ModelReply(wrong, usage=Usage(20, 3)), look, ModelReply(right, usage=Usage(1))]
    dual, _, r = two([GO, DONE], works, actions=[same])
    reply = dual.reply_sync("Count.")
    (conclusion,) = reply.conclusions
    assert conclusion.confidence == 1
    assert (reply.reactive_usage, len(reply.steps)) == (Usage(21, 3), 2)
    assert "confidence must be a number from 0 to 1" in asked(r)[2]

    dual, h, _ = two([GO, DONE], [wrong, wrong])
    (conclusion,) = dual.reply_sync("Count.").conclusions
    assert conclusion.confidence is None
    assert conclusion.error is not None
    assert "unreadable" in conclusion.error
    assert "did not conclude" in asked(h)[1]


@pytest.mark.parametrize("form", ("sync", "async"))
def test_dualact_function_may_extract_the_conclusion(form: str) -> None:
    def plain(reply: Reply) -> Conclusion:
        return Conclusion(reply.text.upper(), confidence=0.5)

    async def later(reply: Reply) -> Conclusion:
        return plain(reply)

    dual, _, _ = two([GO, DONE], ["three"])
    dual.set_conclusion_extractor(plain if form == "sync" else later)
    assert dual.reply_sync("Count.").text == "THREE"


def test_evidence_is_there_whoever_makes_the_conclusion() -> None:
    dual, h, _ = two([GO, DONE], [{"name": "same"}, "one"], actions=[same])
    dual.set_conclusion_extractor(lambda reply: Conclusion("my own words"))
    dual.reply_sync("Count.")
    assert "| my own words" in asked(h)[1]
    assert "| same {} gave: 1" in asked(h)[1]


def test_conclusion_artifact_that_is_not_json_is_a_text_that_says_so() -> None:
    conclusion = Conclusion("done", artifacts={"sizes": (1, 2), "handle": object()})
    assert conclusion.artifacts["sizes"] == [1, 2]
    assert conclusion.artifacts["handle"].startswith("(a object that is not JSON: ")


def test_errors_of_r_go_to_h() -> None:
    class Broken:
        id = "broken"

        async def reply(self, text: str) -> Reply:
            raise ConnectionError("the worker is gone")

        async def observe(self, message: Any) -> None: ...

    model = ScriptedModel([GO, decide("TERMINATE", reasoning="it cannot be done")])
    dual = DualActAgent(DualActConfig(ReActAgent("H", model), Broken()))
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.text) == ("terminated", "")
    assert "ConnectionError: the worker is gone" in asked(model)[1]

    dual, h, _ = two([GO, DONE], [{"name": "nothing"}] * 3)
    dual.reply_sync("Count.")
    assert "did not conclude: unreadable" in asked(h)[1]


def test_dualact_h_that_fails_ends_the_reply_with_the_last_conclusion() -> None:
    for decisions, text in (([], ""), ([GO], "3")):
        dual, _, _ = two(decisions, ["3"])
        reply = dual.reply_sync("Count.")
        assert (reply.stop_reason, reply.text) == ("error", text)
        assert "H ('H'): ModelError: scripted: asked for reply" in reply.detail
        assert reply.error is not None


# -- configuration ---------------------------------------------------------------------------------


def test_prompts_of_ones_own() -> None:
    dual, h, r = two(
        [GO, decide("REDIRECT", "Use {summary}.", "it was {wrong}"), DONE],
        ["three {original_task}", "3"],
        human_decision_prompt="Review the execution result:\n- Task: {original_task}\n"
        "- Summary: {summary}\n- Steps: {steps}\n\nDecide: CONTINUE, TERMINATE, or REDIRECT?",
        reactive_task_prompt='Do this: {instruction}\nFocus on: {focus_area} {"a": 1} {}',
        conclusion_format_prompt="Say it in a word.",
    )
    dual.reply_sync("Count {x}.")
    assert asked(h)[1].startswith(
        "Review the execution result:\n- Task: | Count {x}.\n- Summary: | three {original_task}\n"
    )
    first, second = asked(r)
    assert first == (
        'Do this: Count the files.\nFocus on: because {"a": 1} {}\n\nSay it in a word.'
    )
    assert second.startswith("Change your approach")
    assert 'Do this: Use {summary}.\nFocus on: it was {wrong} {"a": 1} {}' in second


@pytest.mark.parametrize(
    ("wrong", "told"),
    (
        ({"human": None}, "human= needs an agent that replies"),
        ({"reactive": "R"}, "reactive= needs an agent that replies"),
        ({"reactive": []}, "reactive="),
        ({"reactive": ReActAgent}, "reactive= needs an agent that replies"),
        ({"max_hr_loops": 0}, "max_hr_loops= must be a whole number from 1 up, got 0"),
        ({"max_hr_loops": 2.5}, "max_hr_loops="),
        ({"first": "both"}, 'first= must be "human" or "reactive"'),
        ({"human_decision_prompt": "{sumary}"}, r"a place \{sumary\} that is not known; known: "),
        ({"reactive_task_prompt": "{summary}"}, r"reactive_task_prompt= has a place \{summary\}"),
        ({"conclusion_format_prompt": 7}, "conclusion_format_prompt= must be a text"),
        ({"shared_memory": "no"}, "shared_memory= must be True or False, got 'no'"),
        ({"review": "sometimes"}, "review= is 'every', 'on_error', 'no_progress'"),
    ),
)
def test_dualact_wrong_setting_is_named(wrong: dict[str, Any], told: str) -> None:
    config = {"human": ReActAgent("H", "local"), "reactive": ReActAgent("R", "local"), **wrong}
    with pytest.raises(ConfigError, match=told) as raised:
        DualActConfig(**config)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("ids", (("R", "R"), (7, "7")))
def test_workers_of_one_id_are_refused(ids: tuple[Any, Any]) -> None:
    workers = [ReActAgent(id, "local") for id in ids]
    with pytest.raises(ConfigError, match=f"two agents of the id '{ids[1]}'"):
        DualActConfig(ReActAgent("H", "local"), workers)


def test_dualact_parts_can_be_read() -> None:
    human, reactive = ReActAgent("H", "local"), ReActAgent("R", "local")
    dual = DualActAgent(DualActConfig(human=human, reactive=reactive))
    assert dual.human_agent is human
    assert dual.reactive_agent is reactive
    assert (dual.id, dual.config.max_hr_loops) == ("dualact", 5)
    for setter in (dual.set_decision_func, dual.set_conclusion_extractor):
        with pytest.raises(ConfigError, match="must be a function, got 7"):
            setter(7)  # type: ignore[arg-type]
    dual.set_decision_func(lambda *_: HumanDecision(DecisionAction.CONTINUE, ["a", "b"]))
    reply = dual.reply_sync("Count.")
    assert reply.stop_reason == "error"
    assert reply.detail == "a decision has 2 instructions, and there are 1 R"


def test_memories_are_apart_or_one() -> None:
    for shared in (False, True):
        dual, _, _ = two([GO, DONE], ["3"], shared_memory=shared)
        dual.reply_sync("Count.")
        human, reactive = dual.human_agent, dual.reactive_agent
        assert (human.memory is reactive.memory) == shared
        assert len(reactive.memory.get_memories()) == (6 if shared else 2)


@pytest.mark.parametrize(
    "other",
    (
        lambda: Speaker(),
        lambda: Person("you"),
        lambda: Conversation([ReActAgent("c", "local")]),
        lambda: DualActAgent(human=ReActAgent("h", "local"), reactive=ReActAgent("r", "local")),
    ),
    ids=("own class", "person", "conversation", "dual act"),
)
def test_dualact_memory_is_not_shared_with_who_has_none(other: Callable[[], Any]) -> None:
    one, two = ReActAgent("one", "local"), ReActAgent("two", "local")
    for human, reactive in ((other(), one), (one, other()), (one, [two, other()])):
        with pytest.raises(ConfigError, match="shared_memory= needs agents with a memory"):
            DualActConfig(human, reactive, shared_memory=True)


class Speaker:
    """Talks without a model."""

    id = "speaker"

    async def reply(self, text: str) -> Reply:
        return Reply(DONE, DONE, [], [], Usage(), "done")

    async def observe(self, message: Any) -> None: ...


def test_dualact_observation_is_remembered_once_by_both() -> None:
    for shared in (False, True):
        dual, h, r = two([GO, DONE], ["3"], shared_memory=shared)
        asyncio.run(dual.observe("It rains."))
        dual.reply_sync("Count.")
        for model in (h, r):
            said = [message["content"] for message in model.received[0]]
            assert said.count("It rains.") == 1


# -- several R -------------------------------------------------------------------------------------


async def test_workers_go_side_by_side_and_are_concluded_in_their_order() -> None:
    second_done = asyncio.Event()

    north = {"summary": "north", "suggested_next_action": "Rest."}

    async def slow(*_: Any) -> str:
        await second_done.wait()
        return json.dumps({**north, "confidence": 0.4, "artifacts": {"n": 1}})

    async def fast(*_: Any) -> str:
        second_done.set()
        return json.dumps({"summary": "south", "confidence": 0.8, "steps": ["looked"]})

    h = ScriptedModel(
        [
            json.dumps(
                {
                    "action": "CONTINUE",
                    "new_instruction": ["Go north.", "Go south."],
                    "reasoning": "",
                }
            ),
            DONE,
        ]
    )
    models = [ScriptedModel([slow]), ScriptedModel([fast])]
    workers = [ReActAgent(f"R{n}", model) for n, model in enumerate(models)]
    dual = DualActAgent(DualActConfig(ReActAgent("H", h), workers))
    async with asyncio.timeout(WAIT):
        reply = await dual.reply("Explore.")
    assert (reply.text, reply.r_runs) == ("R0: north\nR1: south", 1)
    (conclusion,) = reply.conclusions
    assert (conclusion.confidence, conclusion.steps) == (0.4, ["R1: looked"])
    assert conclusion.artifacts == {"R0": {"n": 1}}
    assert conclusion.suggested_next_action == "R0: Rest."
    assert [asked(model)[0].split("\n")[0] for model in models] == ["Go north.", "Go south."]
    assert "R is 2 agents." in asked(h)[0]


@pytest.mark.parametrize("texts", (["one"], ["one", "two", "three"], []))
def test_dualact_instructions_are_as_many_as_there_are_r(texts: list[str]) -> None:
    said = json.dumps({"action": "CONTINUE", "new_instruction": texts, "reasoning": ""})
    h = ScriptedModel([said, GO, DONE])
    workers = [ReActAgent(f"R{n}", ScriptedModel(["done"])) for n in range(2)]
    assert DualActAgent(DualActConfig(ReActAgent("H", h), workers)).reply_sync("Explore.").text
    assert "answer.new_instruction is wrong" in asked(h)[1]
    assert "or a list with one text for each" in asked(h)[1]


def test_dualact_one_failing_r_keeps_the_others_results() -> None:
    models = [ScriptedModel([]), ScriptedModel(["south"])]
    workers = [ReActAgent(f"R{n}", model) for n, model in enumerate(models)]
    h = ScriptedModel([GO, DONE])
    dual = DualActAgent(DualActConfig(ReActAgent("H", h), workers))
    (conclusion,) = dual.reply_sync("Explore.").conclusions
    assert "R1: south" in conclusion.summary
    assert conclusion.error is not None
    assert conclusion.error.startswith("R0: error: ModelError")


# -- hooks and events ------------------------------------------------------------------------------


def test_hooks_of_the_whole_of_h_and_of_r() -> None:
    seen: list[tuple[str, Any]] = []
    dual, _, _ = two([GO, GO, DONE], ["one", "two"])
    for type in ("reply", "reasoning", "acting"):
        for when in ("pre", "post"):
            name = f"{when}_{type}"
            dual.register_hook(
                name, "see", lambda _, k, name=name: seen.append((name, k.get("loop")))
            )
    dual.reply_sync("Count.")
    assert seen == [
        ("pre_reply", None),
        *[("pre_reasoning", 1), ("post_reasoning", 1), ("pre_acting", 1), ("post_acting", 1)],
        *[("pre_reasoning", 2), ("post_reasoning", 2), ("pre_acting", 2), ("post_acting", 2)],
        *[("pre_reasoning", 3), ("post_reasoning", 3)],
        ("post_reply", None),
    ]


def test_hooks_may_change_decisions_instructions_and_conclusions() -> None:
    dual, h, r = two([DONE, DONE], ["three"])

    def insist(_: Any, kwargs: dict[str, Any]) -> dict[str, Any] | None:
        if kwargs["loop"] == 1:
            return {"decision": HumanDecision(DecisionAction.CONTINUE, "Do it all the same.")}
        return None

    dual.register_hook("post_reasoning", "insist", insist)
    dual.register_hook("pre_acting", "polite", lambda _, k: {"instruction": "Please count."})
    dual.register_hook(
        "post_acting", "loud", lambda _, k: {"conclusion": Conclusion(k["conclusion"].summary * 2)}
    )
    reply = dual.reply_sync("Count.")
    assert (reply.text, reply.r_runs) == ("threethree", 1)
    assert asked(r) == ["Please count."]
    assert [each.action.value for each in reply.decisions] == ["CONTINUE", "TERMINATE"]
    assert "| threethree" in asked(h)[1]


@pytest.mark.parametrize("type", ("pre_reasoning", "post_reasoning", "pre_acting", "post_acting"))
@pytest.mark.parametrize("fault", ("raises", "wrong"))
def test_dualact_hook_that_fails_ends_the_reply_and_says_which(type: str, fault: str) -> None:
    wrong: dict[str, Any] = {
        "decision": 7,
        "conclusion": 7,
        "instruction": ["a", "b"],
        "prompt": "",
    }

    def hook(_: Any, kwargs: dict[str, Any]) -> Any:
        if fault == "raises":
            raise ZeroDivisionError("oh")
        return wrong

    dual, _, _ = two([GO, DONE], ["three"])
    dual.register_hook(type, "broken", hook)
    reply = dual.reply_sync("Count.")
    if fault == "raises" or type != "pre_reasoning":
        assert reply.stop_reason == "error"
        assert type in reply.detail


@pytest.mark.parametrize(
    ("type", "given", "told"),
    (
        ("pre_reply", {"schema": {"$ref": "#/gone"}}, "schema= is not a JSON schema"),
        ("pre_reasoning", {"prompt": 5}, "it gave no str but 5"),
        ("post_reasoning", {"decision": 5}, "it gave no HumanDecision but 5"),
        (
            "post_reasoning",
            {"decision": HumanDecision(DecisionAction.CONTINUE, ["a", "b"])},
            "a decision has 2 instructions, and there are 1 R",
        ),
        ("pre_acting", {"instruction": 5}, "it gave no str but 5"),
        ("pre_acting", {"instruction": [5]}, "it gave no str but 5"),
        ("pre_acting", {"instruction": ["a", "b"]}, "it has 2 instructions, and there are 1 R"),
        ("post_acting", {"conclusion": 5}, "it gave no Conclusion but 5"),
        ("post_reply", {"reply": 5}, "it gave no Reply but 5"),
    ),
)
def test_dualact_hook_that_gives_what_will_not_do_is_named(
    type: str, given: dict[str, Any], told: str
) -> None:
    dual, _, _ = two([GO, DONE], ["three"])
    dual.register_hook(type, "fine", lambda *_: None)
    dual.register_hook(type, "wrong", lambda *_: given)
    reply = dual.reply_sync("Count.")
    assert reply.stop_reason == "error"
    assert f"the {type} hook 'wrong' failed: {told}" in reply.detail


def test_events_of_both_in_order() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    dual, _, _ = two(
        [GO, DONE], [{"name": "add", "args": {"a": 1, "b": 2}}, "It is 3."], actions=[add]
    )

    async def main() -> list[Any]:
        return [event async for event in dual.stream("Add.")]

    events = asyncio.run(main())
    story = [(event.kind, event.agent) for event in events if event.kind not in ("message", "text")]
    assert story == [
        ("decision", "dualact"),
        ("call_started", "R"),
        ("call_ended", "R"),
        ("conclusion", "dualact"),
        ("decision", "dualact"),
        ("done", "dualact"),
    ]
    texts = [event.text for event in events if event.kind == "text" and event.agent == "R"]
    assert "".join(texts) == "It is 3."
    assert [e.loop for e in events if isinstance(e, DecisionMade | ConclusionReached)] == [1, 1, 2]
    assert events[-1].reply.text == "It is 3."


# -- review ----------------------------------------------------------------------------------------


def test_dualact_review_on_error_accepts_good_results() -> None:
    dual, h, _ = two([GO], ["3"], review="on_error")
    assert dual.config.review == "on_error"
    assert two([GO], ["3"])[0].config.review == "every"
    reply = dual.reply_sync("Count.")
    assert (reply.text, reply.stop_reason, len(h.received)) == ("3", "terminated", 1)
    assert reply.decisions[-1].reasoning == "accepted: on_error did not catch it"


@pytest.mark.parametrize(
    ("rule", "works", "reviewed"),
    (
        ("every", ["3"], True),
        ("on_error", ["3"], False),
        ("on_error", [{"name": "fail"}, "3"], True),
        ("on_error", [{"name": "unknown"}, {"name": "unknown"}], True),
        ("confidence", ['{"summary": "3", "confidence": 0.9}'], False),
        ("confidence", ['{"summary": "3", "confidence": 0.4}'], True),
        ("confidence", ["3"], True),
        ("either", ['{"summary": "3", "confidence": 0.9}'], False),
        ("either", [{"name": "fail"}, '{"summary": "3", "confidence": 0.9}'], True),
        ("both", ["3"], False),
        ("both", [{"name": "fail"}, "3"], True),
        ("share", ["3"], False),
        ("share", [{"name": "fine", "id": "1"}, "3"], True),
    ),
)
def test_rules(rule: str, works: list[Any], reviewed: bool) -> None:
    from moothall import after_budget_share, below_confidence, on_error

    rules: dict[str, Any] = {
        "confidence": below_confidence(0.5),
        "either": on_error | below_confidence(0.5),
        "both": on_error & below_confidence(0.5),
        "share": after_budget_share(0.3),
    }

    def fail() -> None:
        """Fail."""
        raise ValueError("no")

    def fine() -> None:
        """Be fine."""

    dual, h, _ = two(
        [GO, DONE],
        works,
        actions=[fail, fine],
        review=rules.get(rule, rule),
        budget=Budget(model_calls=8),
    )
    reply = dual.reply_sync("Count.")
    assert reply.stop_reason == "terminated"
    assert (len(h.received) == 2) == reviewed


def test_dualact_review_by_a_budget_without_actions_counts_it_spent_from_the_start() -> None:
    from moothall import after_budget_share

    rule = after_budget_share(1)
    dual, h, _ = two([GO, DONE], ["3"], review=rule, budget=Budget(model_calls=8, actions=0))
    assert dual.reply_sync("Count.").stop_reason == "terminated"
    assert len(h.received) == 2


def test_dualact_review_by_no_progress_is_the_same_conclusion_again() -> None:
    from moothall import no_progress

    dual, h, _ = two([GO], ["3"], review=no_progress)
    assert dual.reply_sync("Count.").stop_reason == "terminated"
    assert len(h.received) == 1
    dual, h, _ = two([GO, DONE], [{"name": "same"}] * 3, review="no_progress", actions=[same])
    assert dual.reply_sync("Count.").stop_reason == "terminated"
    assert len(h.received) == 2


def same() -> int:
    """Give the same."""
    return 1


# -- limits, cancelling, interrupting --------------------------------------------------------------


def test_dualact_h_and_r_spend_one_budget() -> None:
    budget = Budget(model_calls=3)
    dual, h, r = two([GO, GO, DONE], ["a", "b"], budget=budget)
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.text) == ("budget", "a")
    assert len(h.received) + len(r.received) == budget.spent.model_calls == 3
    dual, h, r = two([GO, DONE], ["a"], budget=Budget(model_calls=1))
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.text, reply.r_runs) == ("budget", "", 1)


def test_dualact_budget_may_have_a_part_of_ones_own() -> None:
    budget = Budget(model_calls=10)
    own = budget.child(model_calls=1)
    human = ReActAgent("H", ScriptedModel([GO, DONE]))
    reactive = ReActAgent("R", ScriptedModel([{"name": "same"}, "3"]), actions=[same], budget=own)
    dual = DualActAgent(DualActConfig(human, reactive), budget=budget)
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.r_runs) == ("terminated", 1)
    assert (human.budget, reactive.budget) == (budget, own)
    with pytest.raises(ConfigError, match="budgets of their own"):
        DualActAgent(DualActConfig(human, reactive), budget=Budget(model_calls=1))


def limited(kind: str, shared: Budget | None) -> Budget:
    """A budget that is spent at once, for a reason; a part of another, if one is given."""
    limit: dict[str, Any] = {"seconds": 0} if kind == "deadline" else {"model_calls": 0}
    return Budget(**limit) if shared is None else shared.child(**limit)


@pytest.mark.parametrize("kind", ("budget", "deadline"))
@pytest.mark.parametrize("part_of", ("nothing", "the pair's", "H's", "one that H has a part of"))
def test_dualact_r_whose_own_budget_is_spent_is_hs_to_judge(kind: str, part_of: str) -> None:
    shared = Budget(model_calls=10, seconds=600)
    of_h = {"H's": shared, "one that H has a part of": shared.child()}.get(part_of)
    h = ScriptedModel([GO, GO, DONE])
    human = ReActAgent("H", h, budget=of_h)
    own = limited(kind, None if part_of == "nothing" else shared)
    reactive = ReActAgent("R", ScriptedModel([]), budget=own)
    pair = shared if part_of == "the pair's" else None
    dual = DualActAgent(DualActConfig(human, reactive), budget=pair)
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.r_runs, len(h.received)) == ("terminated", 2, 3)
    assert all((each.error or "").startswith(f"{kind}: ") for each in reply.conclusions)
    assert kind in asked(h)[1]


@pytest.mark.parametrize("kind", ("budget", "deadline"))
@pytest.mark.parametrize("given_to", ("the pair", "both"))
def test_dualact_budget_that_both_share_ends_the_work(kind: str, given_to: str) -> None:
    shared = limited(kind, None)
    each = shared if given_to == "both" else None
    h = ScriptedModel([])
    human = ReActAgent("H", h, budget=each)
    reactive = ReActAgent("R", ScriptedModel([]), budget=each)
    pair = shared if given_to == "the pair" else None
    dual = DualActAgent(DualActConfig(human, reactive, first="reactive"), budget=pair)
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.r_runs, h.received) == (kind, 1, [])
    # Without one that is the pair's, the other is asked, and refused at once.
    assert reply.detail.startswith("R ('R'): " if given_to == "the pair" else "H ('H'): ")


def test_dualact_shared_budget_may_be_spent_by_an_r_with_a_part_of_it() -> None:
    shared = Budget(model_calls=1)
    human = ReActAgent("H", ScriptedModel([]))
    works = ScriptedModel([{"name": "same"}, "3"])
    reactive = ReActAgent("R", works, actions=[same], budget=shared.child(model_calls=9))
    config = DualActConfig(human, reactive, first="reactive")
    reply = DualActAgent(config, budget=shared).reply_sync("Count.")
    assert (reply.stop_reason, reply.r_runs, len(reply.steps)) == ("budget", 1, 1)


def test_dualact_r_that_raises_that_its_own_budget_is_spent_is_hs_to_judge() -> None:
    class Spent:
        id = "R"

        async def reply(self, text: Any) -> Reply:
            raise BudgetExceeded("nothing is left", "tokens")

        async def observe(self, message: Any) -> None: ...

    human = ReActAgent("H", ScriptedModel([GO, DONE]))
    reply = DualActAgent(DualActConfig(human, Spent())).reply_sync("Count.")
    assert reply.stop_reason == "terminated"
    assert reply.conclusions[0].error == "BudgetExceeded: nothing is left"


@pytest.mark.parametrize("kind", ("budget", "deadline"))
def test_dualact_h_whose_own_budget_is_spent_ends_the_work(kind: str) -> None:
    human = ReActAgent("H", ScriptedModel([]), budget=limited(kind, None))
    reactive = ReActAgent("R", ScriptedModel(["three"]))
    dual = DualActAgent(DualActConfig(human, reactive, first="reactive"))
    reply = dual.reply_sync("Count.")
    assert (reply.stop_reason, reply.text) == (kind, "three")


@pytest.mark.parametrize("who", ("H", "R", "function"))
async def test_cancelling_reaches_the_leaf(who: str) -> None:
    begun, ended = asyncio.Event(), []

    async def hang(*_: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(who)

    decisions, works = ([hang, DONE], ["3"]) if who == "H" else ([GO, DONE], [hang, "3"])
    dual, _, _ = two(decisions, works)
    if who == "function":
        dual.set_decision_func(hang)
    task = asyncio.create_task(dual.reply("Count."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [who]


async def test_dualact_interruption_reaches_r_at_work_and_then_h() -> None:
    begun = asyncio.Event()

    async def hang(*_: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    dual, h, r = two([GO, GO, DONE], [hang, "3, in French", "3, in French"])
    task = asyncio.create_task(dual.reply("Count."))
    await begun.wait()
    assert await dual.interrupt("In French, please.")
    reply = await task
    assert (reply.text, reply.stop_reason) == ("3, in French", "terminated")
    assert asked(r)[1] == "In French, please."
    # H must know what R was told, to review its conclusion.
    message = "Message from the user:\n| In French, please."
    assert [message in prompt for prompt in asked(h)] == [False, True, False]
    assert "French" not in asked(r)[2]


def test_dualact_interruption_that_r_cannot_hear_reaches_h() -> None:
    class Deaf:
        id = "R"

        async def reply(self, text: str) -> Reply:
            assert dual.interrupt("In French, please.")
            return Reply("3")

        async def observe(self, message: Any) -> None: ...

    h = ScriptedModel([GO, DONE])
    dual = DualActAgent(human=ReActAgent("H", h), reactive=Deaf())
    assert dual.reply_sync("Count.").text == "3"
    assert "Message from the user:\n| In French, please." in asked(h)[1]


def test_dualact_interruption_before_the_reply_reaches_h() -> None:
    dual, h, _ = two([DONE], [])
    assert not dual.interrupt("Be quick.")
    dual.reply_sync("Count.")
    assert "Message from the user:\n| Be quick." in asked(h)[0]


# -- wherever a ReActAgent goes --------------------------------------------------------------------


@pytest.mark.parametrize(("last", "options"), ((DONE, {}), (GO, {"max_hr_loops": 1})))
def test_say_gets_the_conclusion_also_one_that_nobody_accepted(
    last: Any, options: dict[str, Any]
) -> None:
    dual, _, _ = two([GO, last], ["3"], **options)
    with NativeSpace() as space:
        space.add(dual)
        me = space.add(Agent("me"))
        assert me.ask("dualact", "say", content="How many?").result(WAIT) == "3"


@pytest.mark.parametrize(
    ("decisions", "works", "options", "told"),
    (
        ([GO], ["3"], {}, "scripted: asked for reply"),
        ([GO], [], {"budget": Budget(model_calls=1)}, "budget"),
        ([GO, GO], [], {"max_hr_loops": 1}, "did not accept after 1 run of R"),
    ),
    ids=("H fails", "R has no budget", "R fails until it may no more"),
)
def test_dualact_say_without_a_conclusion_is_an_error(
    decisions: list[Any], works: list[Any], options: dict[str, Any], told: str
) -> None:
    dual, _, _ = two(decisions, works, **options)
    with NativeSpace() as space:
        space.add(dual)
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match=told):
            me.ask("dualact", "say", content="How many?").result(WAIT)


@pytest.mark.parametrize("place", ("human", "reactive"))
def test_dualact_works_within_another(place: str) -> None:
    inner, _, _ = two([GO, DONE], [DONE if place == "human" else "3"], id="inner")
    plain = ReActAgent("R", ScriptedModel(["3"]))
    boss = ReActAgent("boss", ScriptedModel([GO, DONE]))
    if place == "reactive":
        outer = DualActAgent(DualActConfig(boss, inner), id="outer", budget=Budget(model_calls=50))
        assert inner.budget is outer.budget
        reply = outer.reply_sync("How many?")
        assert (reply.text, reply.r_runs) == ("3", 1)
    else:
        outer = DualActAgent(DualActConfig(inner, plain, first="reactive"), id="outer")
        assert outer.reply_sync("How many?").stop_reason == "terminated"


def test_dualact_answer_by_a_schema_is_rs() -> None:
    dual, _, _ = two([GO, DONE], ["There are three.", "3"])
    reply = dual.reply_sync("How many?", schema=int)
    assert (reply.value, reply.text) == (3, "3")


def test_dualact_value_is_that_of_the_conclusion_rather_than_one_before() -> None:
    class Worker(Speaker):
        runs = 0

        async def reply(self, text: str, schema: Any = None) -> Reply:
            self.runs += 1
            if self.runs == 2:
                raise ConnectionError("the worker is gone")
            return Reply("7", 7, [], [], Usage(), "done")

    h = ScriptedModel([GO, GO, DONE])
    dual = DualActAgent(DualActConfig(ReActAgent("H", h), Worker()))
    reply = dual.reply_sync("How many?", schema=int)
    assert (reply.stop_reason, reply.r_runs, reply.value) == ("terminated", 2, None)
    assert reply.text != "7"


@pytest.mark.parametrize("first", ("R0", "R1"))
async def test_dualact_values_of_several_r_are_by_their_ids(first: str) -> None:
    ended = asyncio.Event()

    def answer(id: str, value: str) -> Any:
        async def answered(*_: Any) -> str:
            if id == first:
                ended.set()
            else:
                await ended.wait()
            return value

        return answered

    workers = [
        ReActAgent(id, ScriptedModel([answer(id, value)]))
        for id, value in (("R0", "1"), ("R1", "2"))
    ]
    dual = DualActAgent(DualActConfig(ReActAgent("H", ScriptedModel([GO, DONE])), workers))
    async with asyncio.timeout(WAIT):
        reply = await dual.reply("How many?", schema=int)
    assert (reply.text, reply.value) == ("R0: 1\nR1: 2", {"R0": 1, "R1": 2})


def test_dualact_conclusion_that_a_hook_replaced_has_no_value_by_a_schema() -> None:
    dual, _, _ = two([GO, DONE], ["7"])
    dual.register_hook("post_acting", "other", lambda *_: {"conclusion": Conclusion("eight")})
    reply = dual.reply_sync("How many?", schema=int)
    assert (reply.text, reply.value) == ("eight", None)


@pytest.mark.parametrize("h", ([DONE], [GO, DONE], ["no", "no"]))
def test_dualact_value_is_none_without_an_answer_by_the_schema(h: list[str]) -> None:
    dual, _, _ = two(h, ["many", "very many"])
    assert dual.reply_sync("How many?", schema=int).value is None


def test_threads_are_those_of_both() -> None:
    dual, h, r = two([GO, DONE, GO, DONE], ["3", "4"])
    dual.reply_sync("a", thread="Ann")
    dual.reply_sync("b", thread="Bo")
    assert (len(h.received[2]), len(r.received[1])) == (1, 1)


def test_dualact_memory_that_a_user_made_is_used() -> None:
    class Loud(Memory):
        def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
            return [{"role": "system", "content": "LOUD"}, *super().get_memories(limit)]

    h = ScriptedModel([GO, DONE])
    human = ReActAgent("H", h, memory=Loud())
    dual = DualActAgent(DualActConfig(human, ReActAgent("R", ScriptedModel(["3"]))))
    assert dual.reply_sync("Count.").text == "3"
    assert h.received[0][0]["content"] == "LOUD"


def test_h_may_have_tools() -> None:
    def check() -> str:
        """Check."""
        return "checked"

    h = ScriptedModel([GO, ModelReply("", (Call("c", "check", {}),)), DONE])
    human = ReActAgent("H", h, actions=[check])
    dual = DualActAgent(DualActConfig(human, ReActAgent("R", ScriptedModel(["3"]))))
    assert dual.reply_sync("Count.").stop_reason == "terminated"
    assert h.received[2][-1]["content"] == "checked"


def test_dualact_extractor_that_fails_leaves_the_run_of_r_counted() -> None:
    paid: list[int] = []
    dual, _, _ = two([GO, DONE], [Call("1", "pay", {}), "I have paid."], actions=[pay_into(paid)])

    def extract(reply: Reply) -> Conclusion:
        raise KeyError("no such field")

    dual.set_conclusion_extractor(extract)
    reply = dual.reply_sync("Pay.")
    assert (reply.stop_reason, reply.r_runs, reply.text) == ("error", 1, "I have paid.")
    assert len(reply.conclusions) == len(paid) == 1


def pay_into(paid: list[int]) -> Any:
    def pay() -> str:
        """Pay."""
        paid.append(1)
        return "paid"

    return pay


def test_dualact_extractors_evidence_is_kept() -> None:
    dual, _, _ = two([GO, DONE], [Call("1", "pay", {}), "Paid."], actions=[pay_into([])])
    own = [{"action": "looked", "result": "it is there"}]
    dual.set_conclusion_extractor(lambda reply: Conclusion("seen", evidence=own))
    assert dual.reply_sync("Pay.").conclusions[0].evidence == own


async def test_steps_of_several_are_in_their_order_whichever_ended_first() -> None:
    first_may_end = asyncio.Event()

    async def north() -> str:
        """Go north."""
        await first_may_end.wait()
        return "north"

    async def south() -> str:
        """Go south."""
        return "south"

    async def end(messages: Any, actions: Any) -> str:
        first_may_end.set()
        return "Done."

    n = ReActAgent("n", ScriptedModel([Call("1", "north", {}), "Done."]), actions=[north])
    s = ReActAgent("s", ScriptedModel([Call("1", "south", {}), end]), actions=[south])
    human = ReActAgent("H", ScriptedModel([GO, DONE]))
    reply = await DualActAgent(DualActConfig(human, [n, s])).reply("Go.")
    assert [step.action for step in reply.steps] == ["north", "south"]


def test_dualact_interruption_between_turns_is_heard_once_by_each() -> None:
    def say(agent: Any, about: dict[str, Any]) -> None:
        if about["loop"] == 1:
            agent.interrupt("Only the small ones.")

    dual, h, r = two([GO, GO, DONE], ["Counted.", "Counted again."])
    dual.register_hook("post_reasoning", "say", say)
    dual.reply_sync("Count.")
    assert ["small" in prompt for prompt in asked(r)] == [True, False]
    assert ["small" in prompt for prompt in asked(h)] == [False, True, False]


# -- without a config ------------------------------------------------------------------------------


def test_dualact_of_two_agents_needs_no_config() -> None:
    human, reactive = (
        ReActAgent("H", ScriptedModel([GO, GO])),
        ReActAgent("R", ScriptedModel(["3"])),
    )
    dual = DualActAgent(human=human, reactive=reactive, max_hr_loops=1, id="pair")
    assert (dual.id, dual.human_agent, dual.reactive_agent) == ("pair", human, reactive)
    assert dual.config.max_hr_loops == 1
    assert dual.reply_sync("How many?").stop_reason == "max_loops"


def test_dualact_wrong_agents_are_refused() -> None:
    human, reactive = ReActAgent("H", ScriptedModel([])), ReActAgent("R", ScriptedModel([]))
    config = DualActConfig(human, reactive)
    with pytest.raises(ConfigError, match="needs reactive=, or a DualActConfig"):
        DualActAgent(human=human)
    with pytest.raises(ConfigError, match="takes a DualActConfig, or human= and reactive="):
        DualActAgent(human, reactive)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has a config, which says max_hr_loops"):
        DualActAgent(config, max_hr_loops=3)
    for same in (human, [reactive, human]):
        with pytest.raises(ConfigError, match="human= and reactive= are the same agent"):
            DualActAgent(human=human, reactive=same)


def test_dualact_reply_has_the_calls_of_h() -> None:
    def look() -> str:
        """Look."""
        return "3 files"

    h = ScriptedModel([{"name": "look"}, GO, {"name": "look"}, DONE])
    human = ReActAgent("H", h, actions=[look])
    reactive = ReActAgent(
        "R", ScriptedModel([{"name": "count"}, "3"]), actions=[Action("count", len, "", {})]
    )
    reply = DualActAgent(human=human, reactive=reactive).reply_sync("How many?")
    assert reply.stop_reason == "terminated"
    assert [step.action for step in reply.steps] == ["look", "count", "look"]


def test_dualact_reply_is_json_data_with_its_own_parts() -> None:
    dual, _, _ = two([GO, DONE], ["There are 3."])
    told = json.loads(json.dumps(dual.reply_sync("How many?").to_json()))
    assert [each["action"] for each in told["decisions"]] == ["CONTINUE", "TERMINATE"]
    assert told["conclusions"][0]["summary"] == "There are 3."
    assert (told["text"], told["r_runs"]) == ("There are 3.", 1)


def test_h_answers_itself_before_it_sees_what_r_says_and_code_decides() -> None:
    own = {"results_say": "web-3 is stopped", "answer": "No, web-3 is not running."}
    other = {"A_says": "not running", "B_says": "running", "same": "no"}
    same = {"A_says": "stopped", "B_says": "not running", "same": "yes"}

    def state(name: str) -> str:
        """Return the state of a server."""
        return "stopped"

    human = ReActAgent("H", ScriptedModel([json.dumps(e) for e in (own, other, own, same)]))
    call = Call("1", "state", {"name": "web-3"})
    says = [call, "Yes, web-3 is running.", replace(call, id="2"), "It is stopped."]
    worker = ReActAgent("R", ScriptedModel(says), actions=[state])
    dual = DualActAgent(human=human, reactive=worker, judging="own_answer")
    reply = dual.reply_sync("Is web-3 running?")
    assert (reply.stop_reason, reply.text) == ("terminated", "It is stopped.")
    asked_of_h = [messages[-1]["content"] for messages in human.model.received]  # type: ignore[attr-defined]
    assert '| state {"name": "web-3"} gave: stopped' in asked_of_h[0]
    assert "Yes, web-3 is running." not in asked_of_h[0]
    assert "A:\n| No, web-3 is not running.\nB:\n| Yes, web-3 is running." in asked_of_h[1]
    # Which of the two is its own, it cannot tell by their order.
    assert "A:\n| It is stopped.\nB:\n| No, web-3 is not running." in asked_of_h[3]
    first, second, third = reply.decisions
    assert (first.action, third.action) == (DecisionAction.CONTINUE, DecisionAction.TERMINATE)
    assert "By the results: No, web-3 is not running." in str(second.new_instruction)


def judged(mine: str, other: str, *more: dict[str, str]) -> Any:
    """What H that answers first makes of another answer."""
    says = [{"results_say": mine, "answer": mine}, *more]
    dual = DualActAgent(
        human=ReActAgent("H", ScriptedModel([json.dumps(each) for each in says])),
        reactive=ReActAgent("R", ScriptedModel([other])),
        judging="own_answer",
        first="reactive",
        max_hr_loops=1,
    )
    return dual.reply_sync("Which one is it?")


@pytest.mark.parametrize(
    ("mine", "other", "accepted"),
    (
        ("It begins at 16:00.", "At 4 pm", True),
        ("31 March 2026", "It was on 2026-03-31.", True),
        ("It weighs 12 kg.", "twelve kg", True),
        ("The trail has 12.4 km.", "The trail is 12400 metres long.", True),
        ("There are 13.", "There are 12.", False),
        ("It costs 150 euros.", "It costs 152 euros.", False),
        ("15:10", "16:00", False),
        ("12 kg", "12 m", False),
        ("1 hour and 45 minutes", "105 minutes", True),
        ("105 minutes", "1 h 54 min", False),
        ("fern, ivy", "fern, palm, ivy", False),
        ("fern, ivy", "ivy, fern", True),
    ),
)
def test_h_that_answers_first_compares_values_by_code_and_asks_nothing_more(
    mine: str, other: str, accepted: bool
) -> None:
    assert (judged(mine, other).stop_reason == "terminated") is accepted


@pytest.mark.parametrize("same", ("yes", "no"))
@pytest.mark.parametrize(
    ("mine", "other"),
    (
        ("It was refused.", "No, it was not sent."),
        ("No, it closed at 19:00.", "Yes, it is open until 19:00."),
        ("It begins at 16:00.", "It begins at 16."),
        ("Two of them, 1 and 4.", "Three of them."),
    ),
)
def test_h_that_answers_first_asks_whether_other_words_are_the_same_answer(
    mine: str, other: str, same: str
) -> None:
    reply = judged(mine, other, {"A_says": "so", "B_says": "thus", "same": same})
    assert (reply.stop_reason == "terminated") is (same == "yes")


def test_h_that_answers_by_an_example_of_its_prompt_is_asked_again_and_then_unreadable() -> None:
    copied = {"results_say": "the state of Zorp is off", "answer": "It is off."}
    reply = judged("The state of Zorp is off!", "It is on.", copied)
    assert reply.stop_reason == "unreadable"
    assert "repeats an example" in reply.detail


def test_h_sends_r_another_way_if_it_was_told_the_same_before() -> None:
    own = json.dumps({"results_say": "nothing", "answer": "The results do not say."})
    other = json.dumps({"A_says": "not known", "B_says": "Oslo", "same": "no"})
    human = ReActAgent("H", ScriptedModel([own, other, own, other]))
    worker = ReActAgent("R", ScriptedModel(["Oslo.", "Oslo."]))
    dual = DualActAgent(
        human=human, reactive=worker, judging="own_answer", first="reactive", max_hr_loops=2
    )
    reply = dual.reply_sync("What is the capital of Norland?")
    assert [each.action.name for each in reply.decisions] == ["CONTINUE", "REDIRECT"]
    assert "The results of your calls do not show this" in str(reply.decisions[0].new_instruction)


def test_dualact_prompt_of_ones_own_excludes_an_answer_first() -> None:
    with pytest.raises(ConfigError, match='judging="own_answer" asks its own questions'):
        DualActAgent(
            human=ReActAgent("H", ScriptedModel([])),
            reactive=ReActAgent("R", ScriptedModel([])),
            judging="own_answer",
            human_decision_prompt="{summary}",
        )

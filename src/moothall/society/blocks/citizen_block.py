"""The base of citizens' blocks: the citizen's state, plan and place, and one call of a model."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from moothall import Block, BlockParams
from moothall.build import AnswerSchema, Unusable, ask_value, error_text, one_line
from moothall.society.arrays import Number, np
from moothall.society.blocks.columns import ACTIVITIES, ACTS, act_code, current_item
from moothall.society.clock import DAY_S
from moothall.society.columns.own_status import Alone, OwnStatus, alone_with
from moothall.society.columns.rows import Rows
from moothall.society.columns.status import Status
from moothall.society.columns.turn_row import Row
from moothall.society.kernel.draw import Draws
from moothall.society.kernel.mind import prompt_context
from moothall.society.kernel.perception import RULES, Item, Perception, item_of
from moothall.society.kernel.wants import Want, action_of


class CitizenBlockParams(BlockParams):
    """The parameters of a citizen's block; they are frozen."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    by_model: bool = Field(
        default=True, description="whether the citizen's model decides, where it has one"
    )
    prompt: str | None = Field(
        default=None,
        min_length=1,
        description="what the citizen's model is told to decide, instead of the block's own words",
    )


class CitizenBlock(Block):
    """A block of a citizen.

    A subclass states in `does` which items of a plan it carries out; `fits` follows it. If the
    citizen has a model, `decide` asks it, with a schema for the answer. If the model fails or no
    answer can be used, the block's rule decides, and `fallbacks` counts this. Numeric rules are
    functions of the block's module; the column code uses them too.

    Besides the entries of `CitizenMemory`, blocks keep in `status`: `act` (the act of this step),
    `day` (the day of the plan), `mended` (how often a plan broke and was mended), `stuck` (why the
    citizen cannot get to its item's place), `visits` (counts of visited places, by kind),
    `earned`, `income`, `purse` and `savings` (cents) and `fallbacks` (a count for each block).

    Attributes:
        does: the items of a plan that the block's `forward` carries out
        enabled_by: the parameter of `CitizenAgentParams` that enables the block
        want_actions: the kinds of wants that are actions of the block, such as `follow` for
            `Follow`; a method of that name counts instead
        in_prompts: the entries of `status`, such as columns of the block, that the citizen's
            prompts show beside home, work, school, needs, money, savings and opinions
    """

    ParamsType: ClassVar[type[BlockParams]] = CitizenBlockParams
    does: ClassVar[tuple[str, ...]] = ()
    enabled_by: ClassVar[str] = ""
    want_actions: ClassVar[tuple[type[Want], ...]] = ()
    in_prompts: ClassVar[tuple[str, ...]] = ()
    acts: ClassVar[tuple[str | None, ...]] = ACTS
    needs_population: ClassVar[bool] = False  # whether its rules run on a population's rows alone
    by_citizen: ClassVar[frozenset[str]] = frozenset()  # parameters that one call may have of each
    shared_params: tuple[Any, Any] = (None, None)  # the parameters, and those of one call
    _society_token: object  # the society whose rows it has run for

    def __init_subclass__(cls, **options: object) -> None:
        for kind in cls.want_actions:
            if not hasattr(cls, name := kind.__name__.lower()):
                setattr(cls, name, action_of(kind))
        super().__init_subclass__(**options)

    def __init__(
        self,
        llm: Any = None,
        environment: object = None,
        block_params: BlockParams | dict[str, Any] | None = None,
    ) -> None:
        # Parameters are frozen, so all blocks without their own share one.
        super().__init__(llm, environment, block_params or _default_params(self.ParamsType))

    # -- what the block knows ----------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        """The citizen's state."""
        return self.agent.memory.status  # type: ignore[no-any-return]

    @property
    def perceived(self) -> Perception:
        """The citizen's perception of this step."""
        return self.agent.perceived  # type: ignore[no-any-return]

    @property
    def draws(self) -> Draws:
        """The citizen's random numbers of this step."""
        return self.agent.draws  # type: ignore[no-any-return]

    @property
    def city(self) -> Any:
        """The city: the society's, or the `environment`'s; None if it has no `by_kind`."""
        city = self.perceived.view.city
        if city is None:
            city = self.environment or getattr(self.agent.toolbox, "environment", None)
            city = getattr(city, "city", city)
        return city if hasattr(city, "by_kind") else None

    @property
    def now(self) -> int:
        """The time at the beginning of the step: seconds since the midnight before the run."""
        return now_of(self.perceived)

    @property
    def age(self) -> int:
        """The citizen's age in years; 18 if its profile has none."""
        age = (self.status.get("profile") or {}).get("age", 18)
        return int(age) if isinstance(age, int | float) else 18

    @property
    def item(self) -> Item | None:
        """The current item of the plan."""
        return item_of(self.status)

    def is_open(self, place: str, time: int) -> bool:
        """Return whether a place is open at a second of the day; True if places have no hours."""
        city = self.city
        return not hasattr(city, "is_open") or city.is_open(place, time)

    def fits(self, context: Perception) -> float:
        """Return how well the block fits a situation: 1 if it carries out the current item, else 0.

        Args:
            context: the citizen's perception, or an intention in words, `work at office-3`
        """
        if not isinstance(context, Perception):
            return float(str(context).partition(" ")[0].lower() in self.does)
        return float(bool(self.does) and current_item(context.status)[0] in self.does)

    def offer(self, context: Perception) -> str:
        """Return what the block would do now, in words for a model; empty if it cannot act.

        That is the current item of the plan, for a block that carries it out, and not on the way.
        """
        if self.fits(context) <= 0:
            return ""
        if not isinstance(context, Perception):
            return self.description or self.name
        if self.does and context.status.get("moving"):
            return ""
        return (context.intention if self.does else "") or self.description or self.name

    def fits_rows(self, rows: Rows) -> Number:
        """Return `fits` of rows of a population, by their current items."""
        if not self.does or "item_do" not in rows.population.arrays:
            return 0.0
        do = rows.column("item_do")
        fits = np.zeros(len(do), bool)
        for each in self.does:
            if each in ACTIVITIES:
                fits |= do == act_code(each)
        return fits.astype("float32")

    def at_item(self, context: Perception) -> bool:
        """Return whether the citizen is where the current item of its plan is."""
        if not isinstance(context, Perception):
            return True
        item = item_of(context.status)
        where = None if item is None else item["where"]
        return where is None or self.city is None or where == context.place

    # -- what the block does -----------------------------------------------------------------------

    async def forward(self) -> Any:
        """Do `step_rows` for the citizen's own row; return the act of this step."""
        if not hasattr(self, "step_rows"):
            return await super().forward()
        row = self.own_row()
        self.step_rows(row)
        return ACTS[row["act"]]

    def own_row(self) -> Row:
        """Return the citizen as a row, for rules of this block."""
        agent = self.agent
        if agent.own_row is None or not isinstance(agent.memory.status, Status):
            have_columns(agent, self.city)
            agent.own_row = Row(agent, self.city)
        row: Row = agent.own_row
        row.block = self
        return row

    def want(self, want: Want) -> None:
        """Send a want to the world; outside a society, append it to the agent's `wants`."""
        agent = self.agent
        if hasattr(agent.space, "books"):
            agent.want(want)
        else:
            vars(agent).setdefault("wants", []).append(want)

    def act(self, act: str) -> None:
        """Record the citizen's act of this step; its needs change accordingly."""
        self.status["act"] = act

    def note(self, text: str) -> None:
        """Remember an event of this step."""
        self.agent.memory.note(self.perceived.step, text)

    @property
    def fallbacks(self) -> int:
        """How often the rule decided because the model failed or its answer was unusable."""
        return int(self.status.get("fallbacks", {}).get(self.name, 0))

    def fall_back(self, why: str) -> None:
        """Count one fallback: the rule decides in the model's place."""
        counts = self.status.setdefault("fallbacks", {})
        counts[self.name] = counts.get(self.name, 0) + 1
        self.agent.fell_back(f"{self.name}: {why}")

    async def decide(
        self,
        task: str,
        schema: dict[str, Any],
        read: Callable[[dict[str, Any]], Any] | None = None,
        **context: object,
    ) -> Any:
        """Return the answer of the citizen's model; None without a model or a usable answer.

        The model is told what is wrong with an answer that cannot be used, and asked once more.

        Args:
            task: the decision that the model is to make, in words; the block's parameter
                `prompt` is said instead
            schema: the JSON schema of the answer, an object
            read: makes a value of the object, or raises `UnreadableText`; by default the object
            context: JSON data that the model is shown besides what the citizen perceives, is, and
                remembers
        """
        if self.llm is None or not getattr(self.params, "by_model", True):
            return None
        task = getattr(self.params, "prompt", None) or task
        own_context = await prompt_context(self.agent, f"{task} {json.dumps(context, default=str)}")
        rules = getattr(self.agent.params, "decision_prompt", RULES)
        prompt = self.perceived.prompt(task, schema, {**own_context, **context}, rules)
        answer = AnswerSchema(schema)

        def value_of(text: str) -> Any:
            value = answer.parse(text)
            return value if read is None else read(value)

        try:
            return await ask_value(self.llm, prompt, schema, value_of)
        except Unusable as error:
            self.fall_back(one_line(f"the model's answer {error}", 200))
        except Exception as error:  # an error of the model costs only its answer
            self.fall_back(error_text(error))
        return None


def blocks_with_columns(blocks: Iterable[Any]) -> list[CitizenBlock]:
    """Return the blocks of a citizen that have columns; with the plan that shipped rules read."""
    chosen = [each for each in blocks if isinstance(each, CitizenBlock)]
    has_rules = any(hasattr(each, "step_rows") and not each.needs_population for each in chosen)
    if has_rules and not any(("plan",) in getattr(each, "status_keys", ()) for each in chosen):
        chosen.append(importlib.import_module("moothall.society.blocks").PlanBlock())
    return chosen


def have_columns(agent: Any, city: Any) -> None:
    """Let an agent in no society have its status in columns of its own, with these places.

    Raises:
        ConfigError: its status does not fit the columns of its blocks
    """
    status, places = agent.memory.status, city if hasattr(city, "ids") else None
    if isinstance(status, Status):
        if not isinstance(status.register, Alone) or status.register.has_places_of(places):
            return
        agent.memory.status = status.plain()  # it has come to another city
        agent.own_row = None
    blocks = blocks_with_columns(agent.blocks)
    view = OwnStatus(*alone_with(places, blocks, str(agent.id)), 0)
    view.take(agent.memory.status, is_new=True)
    agent.memory.status = view
    if agent.perceived.status is status:
        agent.perceived.status = view


def now_of(perceived: Any) -> int:
    """Return when the step of a `Perception` or `Rows` begins: seconds since the first midnight."""
    clock = perceived.clock
    if clock is None:
        return int(perceived.step * perceived.seconds)
    return int(clock.day * DAY_S + clock.time)


DEFAULT_BLOCKS = ("Needs", "Plan", "Mobility", "Social", "Economy", "Other", "Feed")
"""The blocks of a citizen that is given none. Of those that fit equally, the first acts."""


def all_blocks() -> list[CitizenBlock]:
    """Return one of each block with its default parameters, for one citizen."""
    package = importlib.import_module("moothall.society.blocks")
    return [getattr(package, f"{name}Block")() for name in DEFAULT_BLOCKS]


@functools.cache
def _default_params(kind: type[BlockParams]) -> BlockParams:
    return kind()

"""Blocks: plugins that give an agent behaviour in each step, actions, and a part of its prompt."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from moothall.actions.marking import MarkedOptions
from moothall.actions.signature import refuse_generator
from moothall.foundation.arguments import can_take, check_text
from moothall.foundation.errors import ConfigError, DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moothall.agents.params import BlockParams
    from moothall.models.protocol import Model


_PARAMETERS: Final = {
    "guidance": ("context",),
    "around_model": ("step", "call"),
    "around_action": ("step", "call"),
}
"""What is called of a block in an agent with a loop, and what it takes."""


class Guidance(NamedTuple):
    """What a prompt says of a block, and lines from outside, which stand at the end of the prompt.

    Attributes:
        text: the block's own text
        outside: the lines, each with its source, such as `("page example.org", "- title")`
    """

    text: str
    outside: Sequence[tuple[str, str]] = ()


class Block:
    """A plugin of an agent: what it does in each step, and the actions that it provides.

    A subclass defines `forward`, which its agent calls when it chooses to, and what happens
    before and after each step of the agent.

    An agent with a loop, such as `ReActAgent`, gives the block's actions and its `guidance` to its
    model. It needs no `forward` there, and may have two more methods, which stand around each step
    of the loop, the first block outermost; `await call()` goes on, and what they return counts:

        async def around_model(self, step: ModelStep, call) -> ModelReply
        async def around_action(self, step: ActionStep, call) -> dict[str, Any]

    Args:
        llm: the model that it may ask; its agent's if left out
        environment: where it acts
        block_params: its parameters, as `ParamsType` or a dict of its fields; by default those
            of `ParamsType`, or `BlockParams`

    Attributes:
        agent: the first agent that it was given to, or None
        own_llm: the model that it was given; None for its agent's
        name: what it is called; the class's name if the class states none
        description: what it does, in words for people, models and dispatchers
        actions: descriptions of what it can do, by name: its `@action` methods, and what the class
            lists itself for what only `forward` does
        guidance: what the prompt of an agent with a loop says of it: a text, or a method that takes
            the `Context` of the reply and returns one, or a `Guidance`, sync or async, which is
            called once a run
        keeps_in: the folder in which it keeps what conversations said, or empty: runs name it, so
            that who deletes a conversation finds it

    Raises:
        ConfigError: a parameter of a dict is wrong, or the parameters are another block's
    """

    name: str = ""
    description: str = ""
    actions: dict[str, str] = {}  # noqa: RUF012 - as seed 000 declares it; each instance has its own
    guidance: str | Callable[..., Any] = ""
    keeps_in: str = ""
    ParamsType: ClassVar[type[BlockParams] | None] = None
    agent: Any
    own_llm: Any
    environment: Any
    params: Any

    def __init__(
        self,
        llm: Model | None = None,
        environment: Any = None,
        block_params: BlockParams | dict[str, Any] | None = None,
    ) -> None:
        self.agent = None
        self.actions = dict(type(self).actions)
        self.own_llm = llm
        self.environment = environment
        if block_params is None:
            from moothall.agents.params import BlockParams  # pydantic takes long to import

            block_params = (self.ParamsType or BlockParams)()
        self.params = checked_params(self.ParamsType, block_params)
        if self.ParamsType is not None and not isinstance(self.params, self.ParamsType):
            expected = f"{self.ParamsType.__name__} or a dict of its fields"
            raise ConfigError(
                f"{self.name}: block_params= must be {expected}, got {block_params!r:.80}"
            )

    @property
    def llm(self) -> Model | None:
        """The model that it may ask: its own, else its agent's, else None."""
        return getattr(self.agent, "llm", None) if self.own_llm is None else self.own_llm

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = cls.__dict__.get("actions", {})
        if not isinstance(declared, dict) or not all(
            isinstance(each, str) for pair in declared.items() for each in pair
        ):
            fault = f"{cls.__name__}.actions must be texts by name, got {declared!r:.80}"
            raise DefinitionError(fault)
        name = cls.__dict__.get("name") or ""
        if not isinstance(name, str) and not hasattr(name, "__get__"):  # a property may be one
            raise DefinitionError(f"{cls.__name__}.name must be a text, got {cls.name!r:.80}")
        cls.name = cls.__dict__.get("name") or cls.__name__
        marked = actions_of(cls)
        docs = {
            name: getattr(cls, attribute).__doc__ or "" for name, (attribute, _) in marked.items()
        }
        descriptions = {name: text.strip().partition("\n")[0] for name, text in docs.items()}
        cls.actions = {**cls.actions, **descriptions, **declared}

    async def before_forward(self) -> None:
        """Called before each step of the agent."""

    async def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Do the block's work, when its agent calls it."""
        raise NotImplementedError(f"{type(self).__name__} must define `async def forward(self)`")

    async def after_forward(self) -> None:
        """Called after each step of the agent, even one that failed."""


def check_block(agent: Any, block: Any) -> None:
    """Raise DefinitionError unless a value can be a block of an agent."""
    if isinstance(block, type):
        class_name = block.__name__
        raise DefinitionError(
            f"{agent}: blocks= must be blocks, got the class {class_name}: {class_name}()"
        )
    if not hasattr(block, "after_forward"):
        raise DefinitionError(f"{agent}: blocks= must be blocks, got {block!r:.80}")
    name, guidance = type(block).__name__, getattr(block, "guidance", "")
    if not (isinstance(guidance, str) or callable(guidance)):
        text = f"must be a text or a function of (context), got {guidance!r:.80}"
        raise DefinitionError(f"{agent}: {name}.guidance {text}")
    for each, parameters in _PARAMETERS.items():
        function = getattr(block, each, None)
        if callable(function) and not can_take(function, len(parameters)):
            got = f"{each}{inspect.signature(function)}"
            text = f"must be a function of ({', '.join(parameters)}), got {got:.200}"
            raise DefinitionError(f"{agent}: {name}.{each} {text}")


def checked_params(params_type: type[Any] | None, params: Any) -> Any:
    """Return parameters as given; a `ParamsType` checks a dict of its fields."""
    if params_type is None or not isinstance(params, dict):
        return params
    for name in params:
        check_text(f"{params_type.__name__}: a name", name)
    from pydantic import ValidationError

    try:
        return params_type(**params)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    where = ".".join([params_type.__name__, *map(str, fault["loc"])])
    raise ConfigError(f"{where}: {fault['msg']}, got {fault['input']!r:.80}")


def actions_of(cls: type) -> dict[str, tuple[str, MarkedOptions]]:
    """Return the `@action` methods of a class: action name → (attribute, options)."""
    # An override of an inherited action keeps its options, unless it is marked again.
    marked: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            options = getattr(value, "__moothall_action__", None)
            if isinstance(value, staticmethod | classmethod) and (
                attribute in marked or hasattr(value.__func__, "__moothall_action__")
            ):
                raise DefinitionError(
                    f"{base.__name__}.{attribute}: a static or class method has no agent to act for"
                )
            if isinstance(options, dict):
                marked[attribute] = options
            elif attribute in marked and not callable(value):
                del marked[attribute]  # `say = None` takes the action away
    by_name: dict[str, tuple[str, MarkedOptions]] = {}
    for attribute, options in marked.items():
        name = options.get("name") or attribute
        if name in by_name:
            raise DefinitionError(
                f'{cls.__name__}: "{by_name[name][0]}" and "{attribute}" are both the action '
                f'"{name}"'
            )
        refuse_generator(getattr(cls, attribute), f"{cls.__name__}.{attribute}")  # an override's
        by_name[name] = (attribute, options)
    return by_name

"""civitas: agents that talk, act and check each other's work, in one vocabulary.

The public names are here; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.action import ACCESS_DENIED as ACCESS_DENIED
    from civitas.action import ACCESS_PERMITTED as ACCESS_PERMITTED
    from civitas.action import ACCESS_REQUESTED as ACCESS_REQUESTED
    from civitas.action import Action as Action
    from civitas.action import ActionRegistry as ActionRegistry
    from civitas.action import action as action
    from civitas.agent import Agent as Agent
    from civitas.agent import Context as Context
    from civitas.agents.chatty import ChattyAI as ChattyAI
    from civitas.agents.host import Host as Host
    from civitas.approval import ApprovalRequest as ApprovalRequest
    from civitas.approval import Approver as Approver
    from civitas.approval import CallbackApprover as CallbackApprover
    from civitas.approval import RefuseAll as RefuseAll
    from civitas.approval import Rule as Rule
    from civitas.approval import RuleApprover as RuleApprover
    from civitas.approval import TerminalApprover as TerminalApprover
    from civitas.environment import Environment as Environment
    from civitas.errors import ActionError as ActionError
    from civitas.errors import ActionNotFound as ActionNotFound
    from civitas.errors import AgentNotFound as AgentNotFound
    from civitas.errors import AgentStopped as AgentStopped
    from civitas.errors import AskAgain as AskAgain
    from civitas.errors import CivitasError as CivitasError
    from civitas.errors import CommandError as CommandError
    from civitas.errors import CommandTimeout as CommandTimeout
    from civitas.errors import ContextOverflow as ContextOverflow
    from civitas.errors import DefinitionError as DefinitionError
    from civitas.errors import DuplicateAgent as DuplicateAgent
    from civitas.errors import FileError as FileError
    from civitas.errors import FileTooLarge as FileTooLarge
    from civitas.errors import HopLimitExceeded as HopLimitExceeded
    from civitas.errors import InvalidArguments as InvalidArguments
    from civitas.errors import InvalidId as InvalidId
    from civitas.errors import InvalidMessage as InvalidMessage
    from civitas.errors import MailboxFull as MailboxFull
    from civitas.errors import MemoryFileError as MemoryFileError
    from civitas.errors import MissingExtra as MissingExtra
    from civitas.errors import ModelError as ModelError
    from civitas.errors import NoSuchFile as NoSuchFile
    from civitas.errors import NotAFile as NotAFile
    from civitas.errors import NotInSpace as NotInSpace
    from civitas.errors import NotPermitted as NotPermitted
    from civitas.errors import NotText as NotText
    from civitas.errors import OutsideFolder as OutsideFolder
    from civitas.errors import RemoteForbidden as RemoteForbidden
    from civitas.errors import RequestCancelled as RequestCancelled
    from civitas.errors import RequestError as RequestError
    from civitas.errors import RequestTimeout as RequestTimeout
    from civitas.errors import SpaceClosed as SpaceClosed
    from civitas.errors import TooManyThreads as TooManyThreads
    from civitas.errors import WeightsError as WeightsError
    from civitas.goal import Goal as Goal
    from civitas.memory.bounded import TokenBoundedMemory as TokenBoundedMemory
    from civitas.memory.embedder import Embedder as Embedder
    from civitas.memory.embedder import HashEmbedder as HashEmbedder
    from civitas.memory.memory import Memory as Memory
    from civitas.memory.sqlite import SQLiteMemory as SQLiteMemory
    from civitas.memory.summarizing import SummarizingMemory as SummarizingMemory
    from civitas.models.fallback import FallbackModel as FallbackModel
    from civitas.models.limits import RateLimit as RateLimit
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.names import model as model
    from civitas.models.openai import OpenAIModel as OpenAIModel
    from civitas.models.protocol import Call as Call
    from civitas.models.protocol import Model as Model
    from civitas.models.protocol import ModelReply as ModelReply
    from civitas.models.protocol import Usage as Usage
    from civitas.models.recorded import RecordedModel as RecordedModel
    from civitas.models.scripted import ScriptedModel as ScriptedModel
    from civitas.reasoning.react import ReActAgent as ReActAgent
    from civitas.reasoning.reply import Reply as Reply
    from civitas.spaces.native import NativeSpace as NativeSpace

_HOMES = {
    "civitas.action": (
        "ACCESS_DENIED",
        "ACCESS_PERMITTED",
        "ACCESS_REQUESTED",
        "Action",
        "ActionRegistry",
        "action",
    ),
    "civitas.agent": (
        "Agent",
        "Context",
    ),
    "civitas.agents.chatty": ("ChattyAI",),
    "civitas.agents.host": ("Host",),
    "civitas.approval": (
        "ApprovalRequest",
        "Approver",
        "CallbackApprover",
        "RefuseAll",
        "Rule",
        "RuleApprover",
        "TerminalApprover",
    ),
    "civitas.environment": ("Environment",),
    "civitas.errors": (
        "ActionError",
        "ActionNotFound",
        "AgentNotFound",
        "AgentStopped",
        "AskAgain",
        "CivitasError",
        "CommandError",
        "CommandTimeout",
        "ContextOverflow",
        "DefinitionError",
        "DuplicateAgent",
        "FileError",
        "FileTooLarge",
        "HopLimitExceeded",
        "InvalidArguments",
        "InvalidId",
        "InvalidMessage",
        "MailboxFull",
        "MemoryFileError",
        "MissingExtra",
        "ModelError",
        "NoSuchFile",
        "NotAFile",
        "NotInSpace",
        "NotPermitted",
        "NotText",
        "OutsideFolder",
        "RemoteForbidden",
        "RequestCancelled",
        "RequestError",
        "RequestTimeout",
        "SpaceClosed",
        "TooManyThreads",
        "WeightsError",
    ),
    "civitas.goal": ("Goal",),
    "civitas.memory.bounded": ("TokenBoundedMemory",),
    "civitas.memory.embedder": ("Embedder", "HashEmbedder"),
    "civitas.memory.memory": ("Memory",),
    "civitas.memory.sqlite": ("SQLiteMemory",),
    "civitas.memory.summarizing": ("SummarizingMemory",),
    "civitas.models.fallback": ("FallbackModel",),
    "civitas.models.limits": ("RateLimit",),
    "civitas.models.openai": ("OpenAIModel",),
    "civitas.models.recorded": ("RecordedModel",),
    "civitas.models.local": ("LocalModel",),
    "civitas.models.protocol": (
        "Call",
        "Model",
        "ModelReply",
        "Usage",
    ),
    "civitas.models.names": ("model",),
    "civitas.models.scripted": ("ScriptedModel",),
    "civitas.reasoning.react": ("ReActAgent",),
    "civitas.reasoning.reply": ("Reply",),
    "civitas.spaces.native": ("NativeSpace",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps the name `action` for the decorator; importing its module would take it."""

    @property
    def action(self) -> Any:
        """The `@action` decorator."""
        return importlib.import_module("civitas.action").action

    @action.setter
    def action(self, module: ModuleType) -> None:
        """Called by the import system with the module."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

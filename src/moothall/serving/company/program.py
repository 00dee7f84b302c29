"""What a company's file names of its program: the classes of agents, and the hooks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moothall import Agent, ConfigError, DefinitionError, Journal, MoothallError
from moothall.agents import AgentSource
from moothall.build import call_user, log_failure
from moothall.serving.company.agent_kinds import fault_of, make_agent
from moothall.serving.company.company_file import read_settings
from moothall.serving.company.settings import Settings

logger: logging.Logger = logging.getLogger("moothall.serving.company")

_HOOKS: Final = ("on_given_up", "on_waiting", "on_budget_low")


class CompanyProgram:
    """Makes the agents of a company's file, and calls its hooks.

    Args:
        settings: the company's settings
        folder: the folder of the file, where its modules and paths start

    Attributes:
        hooks: the functions by the names of their settings; None for one that the file leaves out
        faults: what is wrong with agents that no restart can mend, by name
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._sources = {
            name: None if agent.ref is None else AgentSource(agent.ref, f"agent {name!r}:", folder)
            for name, agent in settings.agents.items()
        }
        self.hooks: dict[str, Callable[..., Any] | None] = {
            key: self._load_hook(key) for key in _HOOKS
        }
        self.faults: dict[str, str] = {}

    def _load_hook(self, key: str) -> Callable[..., Any] | None:
        if (reference := getattr(self._settings, key)) is None:
            return None
        hook = AgentSource(reference, f"{key}:", self._folder).load()
        if not callable(hook):
            raise ConfigError(f"{key} must name a function, got {reference!r}")
        return hook  # type: ignore[no-any-return]

    def check(self) -> list[str]:
        """Import the modules that the file names; return what is wrong with the agents."""
        faults = []
        for name, source in self._sources.items():
            try:
                if source is not None:
                    source.prepared(name, self._agent_options(name))
            except MoothallError as error:
                faults.append(fault_of(name, error))
        return faults

    def create_agent(self, name: str) -> Agent:
        """Make an agent; note in `faults` why it can never be made."""
        source, kind = self._sources[name], self._settings.agents[name].kind
        try:
            return make_agent(name, kind, self._agent_options(name), source, self._folder)
        except MoothallError as error:
            if source is None or isinstance(error.__cause__, ConfigError | DefinitionError | None):
                self.faults[name] = fault_of(name, error)
            raise

    def _agent_options(self, name: str) -> dict[str, Any]:
        agent = self._settings.agents[name]
        return {**agent.options, **agent.secrets}

    async def call_hook(self, key: str, *arguments: Any) -> None:
        """Call a hook, if the file names it; log its failure."""
        if (hook := self.hooks[key]) is not None:
            try:
                await call_user(hook, *arguments)
            except Exception as error:
                log_failure(logger, f"{key} failed", error)


def agents_of_file(path: str | os.PathLike[str]) -> tuple[list[Agent], Journal | None]:
    """Return the agents of a company's file, which enter no space, and the company's journal.

    Raises:
        ConfigError, MissingExtra: as `Company.from_yaml`
        MoothallError: an agent cannot be made, or the journal cannot be opened
    """
    settings, folder = read_settings(Path(path)), Path(path).resolve().parent
    address = settings.journal
    if address is not None and not Journal.is_url(address):
        address = str(folder / address)
    journal = None if address is None else Journal(address)
    program = CompanyProgram(settings, folder)
    agents = [program.create_agent(name) for name in settings.agents]
    for each in agents:
        if journal is not None and getattr(each, "journal", journal) is None:
            each.journal = journal  # type: ignore[attr-defined]
    return agents, journal

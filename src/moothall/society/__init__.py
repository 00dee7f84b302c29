"""Societies: citizens in virtual time, with their blocks, city, services and experiments."""

from __future__ import annotations

from moothall.society.blocks import NAMES as _BLOCKS
from moothall.text import lazily

_NAMES = {
    "blocks": "all_blocks",
    "blocks.block": "CitizenBlock",
    "blocks.reflection": "ReflectionBlock ReflectionBlockParams",
    "kernel.citizen": "AgentType CitizenAgent CitizenAgentParams CitizenMemory",
    "city.city": "City",
    "kernel.facts": "Facts Weather",
    "city.grid": "Grid",
    "city.map": "Mode Place Road",
    "city.plane": "Plane",
    "city.routes": "Route",
    "kernel.commit": "Books Service",
    "kernel.draw": "Draws",
    "population.engine": "Engine LocalEngine",
    "kernel.intervention": "Intervention",
    "experiments.pictures": "draw_day draw_map",
    "experiments.results": "Results compare",
    "experiments.fitting": "Fit",
    "experiments.sensitivity": "Sensitivity",
    "experiments.study": "Experiment",
    "decision_log": "Decision decisions",
    "survey": "Interview Question Respondent Survey SurveyAnswer",
    "positions": "Whereabouts",
    "city.network": "Network read_network",
    "people.drawn": "citizens completed make_people",
    "people.params": "PeopleParams",
    "people.table": "read_people",
    "kernel.perception": "Perception View",
    "city.places": "Capacities Hours Near Neighbours Places Positions Routes needs",
    "blocks.row_block": "RowBlock",
    "columns.column": "Column",
    "population.population": "Population",
    "population.ray": "RayEngine",
    "columns.rows": "Rows",
    "services.economy": "Bank Government make_economy",
    "services.feed": "Feed",
    "services.firm": "Firm",
    "services.labour": "LabourMarket",
    "columns.ledger": "BRACKETS",
    "society": "Society",
    "trajectories": "Trajectories",
    "kernel.wants": "Answer Buy Follow Like Move Pay Post Save Want Work",
}
_NAMES |= {f"blocks.{name.lower()}": f"{name}Block {name}BlockParams" for name in _BLOCKS}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME)

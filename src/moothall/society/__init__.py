"""Societies: citizens in virtual time, with their blocks, city, services and experiments."""

from __future__ import annotations

from moothall.text import lazily

_NAMES = {
    "blocks": "all_blocks",
    "blocks.block": "CitizenBlock",
    "blocks.economy": "EconomyBlock EconomyBlockParams",
    "blocks.feed": "FeedBlock FeedBlockParams",
    "blocks.mobility": "MobilityBlock MobilityBlockParams",
    "blocks.needs": "NeedsBlock NeedsBlockParams",
    "blocks.other": "OtherBlock OtherBlockParams",
    "blocks.plan": "PlanBlock PlanBlockParams",
    "blocks.social": "SocialBlock SocialBlockParams",
    "citizen": "AgentType CitizenAgent CitizenAgentParams CitizenMemory",
    "city.city": "City",
    "city.facts": "Facts Weather",
    "city.grid": "Grid",
    "city.map": "Mode Place Road",
    "city.routes": "Route",
    "commit": "Books Service",
    "draw": "Draws",
    "engine": "Engine LocalEngine",
    "experiments.intervention": "Intervention",
    "experiments.pictures": "draw_day draw_map",
    "experiments.results": "Results compare",
    "experiments.study": "Experiment",
    "experiments.survey": "Interview Question Respondent Survey SurveyAnswer",
    "experiments.watch": "Whereabouts",
    "network": "Network",
    "people.drawn": "citizens completed make_people",
    "people.table": "read_people",
    "perception": "Perception View",
    "places": "Capacities Hours Near Neighbours Places Positions Routes needs",
    "population.block": "RowBlock",
    "population.column": "Column",
    "population.population": "Population",
    "population.ray": "RayEngine",
    "population.rows": "Rows",
    "services.economy": "Bank Government make_economy",
    "services.feed": "Feed",
    "services.firm": "Firm",
    "services.ledger": "BRACKETS",
    "society": "Society",
    "wants": "Answer Buy Follow Like Move Pay Post Save Want Work",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME)

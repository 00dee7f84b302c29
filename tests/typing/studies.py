"""Research with a tool and a step of one's own: docs/research.md."""

from typing import assert_type

from moothall import Block, Reply, Researcher, action
from moothall.research import (
    Citation,
    Objective,
    Report,
    ResearchTask,
    Resource,
    ResourcePool,
    search_folder,
    visit_page,
)


@action
async def handbook(query: str, pool: ResourcePool) -> list[Resource]:
    """Search the handbook."""
    print(len(pool.get_unvisited()))
    return [Resource(url="file:///a", description=query)]


class OneSearch(Block):
    """Searches each objective once."""

    async def forward(self, researcher: Researcher) -> list[ResearchTask]:
        return [
            ResearchTask("search_folder", {"query": each.topic}, "the objective itself")
            for each in researcher.objectives
        ]


def study() -> Report:
    tools = [search_folder("notes", results=24), visit_page(), handbook]
    researcher = Researcher(
        "r", None, [Objective("Who wrote alpha?")], tools, iterations=3, plan=OneSearch()
    )
    report = researcher.report_sync(run_id="run-1")
    assert_type(report, Report)
    for citation in report.citations:
        assert_type(citation, Citation)
        print(citation.passage.url.upper(), citation.number + 1)
    print(report.html().strip(), report.stop_reason == "done", report.nosuch)  # error
    Researcher("r", None, "Who?", tools, iteration=3)  # error
    Researcher("r", 3, "Who?")  # error
    return report


async def ask(researcher: Researcher) -> str:
    reply = await researcher.reply("Who wrote beta?")
    assert_type(reply, Reply)
    print(researcher.report_so_far().markdown)
    return (await researcher.report()).markdown

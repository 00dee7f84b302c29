"""A researcher without a model: what this project's documentation says about two questions."""

from pathlib import Path

from moothall import Researcher
from moothall.research import search_folder

docs = Path(__file__).resolve().parent.parent / "docs"
researcher = Researcher(
    "researcher",
    None,  # or a model, such as "openai:gpt-4o", which plans, writes and judges
    objectives=["When is an action in doubt?", "What may a budget limit?"],
    tools=[search_folder(docs)],
)
report = researcher.report_sync()
print(report.markdown)

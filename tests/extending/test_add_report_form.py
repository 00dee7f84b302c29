"""A form of a report's file stands in one row, with the packages that it needs.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ROW = (
    (
        '        "json": ReportForm("CSL-JSON", "sources", "application/json", csl_json),\n',
        '        "rst": ReportForm("reStructuredText", "report", "text/x-rst", _as_markdown),\n'
        '        "odt": ReportForm(\n'
        '            "OpenDocument", "report", "text/x", str, packages=("no_such_package",)\n'
        "        ),\n",
    ),
)
USES = """
from moothall import MissingExtra
from moothall.studio.orders import ResearchOrder, check_research

check_research(ResearchOrder(objectives=("Zorps",), folder=".", out="report.rst"))
try:
    check_research(ResearchOrder(objectives=("Zorps",), folder=".", out="report.odt"))
except MissingExtra as error:
    assert str(error).startswith("a report as OpenDocument needs"), error
else:
    raise AssertionError
"""


def test_report_form_added_as_a_row_is_offered_and_its_packages_are_missed_before_the_research(
    added: Added,
) -> None:
    run = added({"research/report.py": ROW})
    run("-c", USES)
    assert ".rst, .odt" in " ".join(run("-m", "moothall", "research", "--help").split())

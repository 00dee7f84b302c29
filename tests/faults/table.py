"""The counts of the faults, as the table of docs/reliability.md."""

from __future__ import annotations

from typing import Any

COLUMNS = {
    "messages": "messages",
    "in_flight": "in flight",
    "handled": "handled",
    "lost": "lost",
    "again": "run again",
    "again_ended": "of them ended",
    "in_doubt": "in doubt",
    "dead": "in the dead letters",
    "unanswered": "without outcome",
    "answered_again": "with two",
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the counts of the faults as the table of docs/reliability.md, if asked to say more."""
    runs: dict[str, list[dict[str, int]]] = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "counts":
                    fault, counts = value
                    runs.setdefault(fault, []).append(counts)
    if runs and terminalreporter.verbosity > 0:
        terminalreporter.section("faults, counted")
        terminalreporter.write_line(f"| fault | runs | {' | '.join(COLUMNS.values())} |")
        terminalreporter.write_line("| --- " * (len(COLUMNS) + 2) + "|")
        for fault, counts in runs.items():
            cells = [extent([each[name] for each in counts]) for name in COLUMNS]
            terminalreporter.write_line(f"| {fault} | {len(counts)} | {' | '.join(cells)} |")


def extent(numbers: list[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least}–{most}"

"""The counts of the faults, as the table of docs/reliability.md, and those of killed runs."""

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


KILLED = {"runs": "runs", "deaths": "deaths", "in_doubt": "in doubt"}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the counts as tables, if asked to say more."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {"counts": {}, "deaths": {}, "back": {}}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call":
            for name, value in report.user_properties:
                if name in found:
                    what, counts = value
                    found[name].setdefault(what, []).append(counts)
    if terminalreporter.verbosity <= 0:
        return
    if runs := found["counts"]:
        terminalreporter.section("faults, counted")
        terminalreporter.write_line(f"| fault | runs | {' | '.join(COLUMNS.values())} |")
        terminalreporter.write_line("| --- " * (len(COLUMNS) + 2) + "|")
        for fault, counts in runs.items():
            cells = [extent([each[name] for each in counts]) for name in COLUMNS]
            terminalreporter.write_line(f"| {fault} | {len(counts)} | {' | '.join(cells)} |")
    if runs := found["back"]:
        terminalreporter.section("service back after a fault, seconds")
        for what, counts in runs.items():
            cells = sorted(second for each in counts for second in each.values())
            terminalreporter.write_line(
                f"| {what} | {len(cells)} | {cells[len(cells) // 2]:.1f} | {cells[-1]:.1f} |"
            )
    if runs := found["deaths"]:
        terminalreporter.section("killed runs, counted")
        terminalreporter.write_line(f"| what was killed | {' | '.join(KILLED.values())} |")
        terminalreporter.write_line("| --- " * (len(KILLED) + 1) + "|")
        for what, counts in runs.items():
            cells = [str(sum(each[name] for each in counts)) for name in KILLED]
            terminalreporter.write_line(f"| {what} | {' | '.join(cells)} |")


def extent(numbers: list[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least}–{most}"

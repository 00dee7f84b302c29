"""The report."""

from pathlib import Path


def write_report(design, results, folder: Path) -> None:
    """Nothing yet."""

"""Weights for what needs a model in the process, and no sense in what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.shallow_weights import write_shallow


@pytest.fixture(scope="session")
def shallow(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the default model with two of its thirty layers, a tenth of the work."""
    path = tmp_path_factory.mktemp("weights") / weights.name
    write_shallow(weights, path, layers=2)
    return path

"""Journals of runs that are killed: files, and, in long tests, databases of a server."""

from __future__ import annotations

import secrets

import pytest

from serving.theirs.kills import Store, in_file


@pytest.fixture(params=(False, pytest.param(True, marks=pytest.mark.long)))
def is_on_server(request: pytest.FixtureRequest) -> bool:
    """Whether the journals are on PostgreSQL; then a call waits for an approval in between."""
    return bool(request.param)


@pytest.fixture
def journal_store(request: pytest.FixtureRequest, is_on_server: bool) -> Store:
    """Give where the journal of a folder is."""
    if not is_on_server:
        return in_file
    server, name = request.getfixturevalue("postgresql"), secrets.token_hex(6)
    return lambda folder: str(server.url(f"t{name}_{folder.name}"))

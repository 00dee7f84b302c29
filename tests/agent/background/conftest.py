"""Journals of killed programs, in a file and on a server."""

from journal.conftest import place as place

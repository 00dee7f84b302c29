"""What the documentation says of the clients and servers that the suite plays."""

from __future__ import annotations

from pathlib import Path

from peers.playing import Peer, peers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
SPEAKS = {"openai": "OpenAI's interface", "mcp": "MCP", "a2a": "A2A", "ag-ui": "AG-UI"}


def row(title: str, its: list[Peer]) -> str:
    """Return the line of a table for a package: its protocol, which side it is, its versions."""
    sides = {"client": "client", "llama": "server of models"}
    side = " and ".join(dict.fromkeys(sides.get(each.kind, "server") for each in its))
    versions = dict.fromkeys((*each.npm, *each.pypi)[0].rpartition("@")[2] for each in its)
    shown = ", ".join(each.rpartition("==")[2] for each in versions)
    return f"| {title} | {SPEAKS[its[0].speaks]} | {side} | {shown} |"


def test_page_of_versions_lists_the_peers_of_the_suite() -> None:
    titles = dict.fromkeys(each.title for each in peers())
    rows = [row(title, [each for each in peers() if each.title == title]) for title in titles]
    lines = PAGE.read_text().splitlines()
    start = lines.index("| package | speaks | as | versions |") + 2
    assert lines[start : start + len(rows) + 1] == [*rows, ""], "\n".join(rows)


def test_peers_are_pinned_to_whole_versions() -> None:
    for peer in peers():
        assert peer.npm or peer.pypi
        for each in peer.npm:
            assert each.rpartition("@")[2].count(".") == 2, each
        for each in peer.pypi:
            assert each.rpartition("==")[2].count(".") >= 2, each

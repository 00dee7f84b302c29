"""Networks from files: tables of edges, matrices, and by networkx its formats."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.society.arrays import csv_rows, import_package, np
from moothall.society.city.network import Network

_FORMATS: Final = {
    ".graphml": "read_graphml",
    ".gexf": "read_gexf",
    ".gml": "read_gml",
    ".net": "read_pajek",
    ".json": "node_link_graph",
    ".mtx": "from_scipy_sparse_array",
}
"""What of networkx reads networks that are no table, by the end of a file's name."""


def read_network(path: str | PathLike[str], *, edge_seconds: int = 60) -> Network:
    """Return the network of a table of edges, CSV, an edge list of SNAP or Parquet; or of a matrix.

    A matrix is CSV of 0 and 1, as many rows as columns; its nodes are `0` … `n−1`. GraphML, GEXF,
    GML, Pajek, JSON (`node_link_data`) and Matrix Market (`.mtx`) are read by networkx, if it is
    installed, with nodes that have no edge too.

    The ends of an edge are the columns `source` and `target`, or `from` and `to`, in capitals or
    not, else the first two. The first row of CSV is an edge if its ends are numbers, or another row
    has one of them. Ids are taken as texts. An edge to itself is left out, since a network has
    none; direction and other columns do not count.

    Args:
        path: the file
        edge_seconds: the travel time of an edge

    Raises:
        ConfigError: the file cannot be read, has no edges, or is of another format, a row has no
            two ids, or networkx is needed and not installed; the text names it
        MissingExtra: it is Parquet, and pyarrow is not installed
    """
    file = Path(path)
    if reader := _FORMATS.get(file.suffix.lower()):
        return _read_by_networkx(file, reader, edge_seconds)
    try:
        if file.suffix.lower() == ".parquet":
            table = import_package("pyarrow.parquet", "read_network", "tables").read_table(file)
            names = table.column_names
            rows = zip(*(table[at].to_pylist() for at in _end_columns(names, file)), strict=True)
            return _network_of_rows(rows, file, edge_seconds)
        with csv_rows(file) as read:
            names, *rest = [row for row in read if row] or [[]]
            if _is_matrix([names, *rest], file):
                a, b = np.array([names, *rest]).astype(np.int64).nonzero()
                is_link = a != b
                if not is_link.any():
                    raise ConfigError(f"{file} has no edges")
                return Network.from_numbers(
                    1 + len(rest), a[is_link], b[is_link], edge_seconds=edge_seconds
                )
            at = _end_columns(names, file)
            width = len(names)
            edges = [[r[each] for each in at] if len(r) == width else r for r in rest]
            ends = [names[each].strip() for each in at]
            ids = {each.strip() for row in edges for each in row}
            if all(each.isdecimal() for each in ends) or not ids.isdisjoint(ends):
                edges.insert(0, ends)
            return _network_of_rows(edges, file, edge_seconds)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise ConfigError(f"{file} is not CSV: {error}") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{file} cannot be read: {error}") from None


def _read_by_networkx(file: Path, reader: str, edge_seconds: int) -> Network:
    """Return the network of a file that networkx reads."""
    try:
        networkx: Any = importlib.import_module("networkx")
    except ImportError:
        raise ConfigError(
            f"{file} is no table of edges, and is read by networkx alone: pip install networkx"
        ) from None
    try:
        source: Any = file
        if file.suffix.lower() == ".json":
            source = json.loads(file.read_text("utf-8"))
        elif file.suffix.lower() == ".mtx":
            source = import_package("scipy.io").mmread(file, spmatrix=False)
        # NetworkX up to 3.5 wrote "links", later ones write "edges".
        options = {"edges": "links"} if type(source) is dict and "links" in source else {}
        graph = getattr(networkx, reader)(source, **options)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # what its parsers raise has no common class
        raise ConfigError(f"networkx.{reader} cannot read {file}: {error}") from error
    edges = [(str(a), str(b)) for a, b in graph.edges() if a != b]
    if not edges:
        raise ConfigError(f"{file} has no edges")
    return Network([*map(str, graph)], edges, edge_seconds=edge_seconds)


def _is_matrix(rows: list[list[str]], file: Path) -> bool:
    """Return whether rows say who is linked to whom by 0 and 1. ConfigError: they are XML."""
    if rows[0] and rows[0][0].startswith("<"):
        raise ConfigError(f"{file} is XML, and no table of edges")
    cells = {cell.strip() for row in rows for cell in row}
    return len(rows) > 2 and cells <= {"0", "1"} and {*map(len, rows)} == {len(rows)}


def _end_columns(names: list[str], file: Path) -> list[int]:
    """Return which columns hold the ends of an edge."""
    # By number: two may have one name, where the first row is an edge to itself.
    by_lower_name = {names[at].strip().lower(): at for at in reversed(range(len(names)))}
    for pair in (["source", "target"], ["from", "to"]):
        if {*pair} <= {*by_lower_name}:
            return [by_lower_name[each] for each in pair]
    if len(names) < 2:
        raise ConfigError(f"{file} must have two columns, such as source and target")
    return [0, 1]


def _network_of_rows(rows: Iterable[Iterable[object]], file: Path, edge_seconds: int) -> Network:
    nodes: dict[str, None] = {}
    edges: list[tuple[str, str]] = []
    for number, row in enumerate(rows, 1):
        pair = [str(each).strip() for each in row if each is not None]
        if len(pair) != 2 or not all(pair):
            raise ConfigError(f"{file}: row {number} must have two ids, got {pair!r:.80}")
        nodes |= dict.fromkeys(pair)
        if pair[0] != pair[1]:
            edges.append((pair[0], pair[1]))
    if not edges:
        raise ConfigError(f"{file} has no edges")
    return Network([*nodes], edges, edge_seconds=edge_seconds)

#!/usr/bin/env python
"""Read recorded exchanges with two trees, and print which answers differ, and how.

    compare_exchanges.py FOLDER [--with TREE]

TREE is a revision of this repository (by default HEAD: what is not committed is compared with what
is) or the path of another checkout. FOLDER has, at any depth, `.jsonl` files of lines as in
tests/peers/recorded; answers of servers as they came, `.json` or, streamed, `.sse`; and cassettes
of VCR, `.yaml`. A server on loopback gives each answer to the models of both trees. It ends with 1
if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
FORM_OF_PATH = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
MAX_SHOWN_CHARS = 300


def exchanges_in(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each exchange of a folder with its name."""
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        name, text = str(file.relative_to(folder)), file.read_text("utf-8", "surrogateescape")
        if file.suffix == ".jsonl":
            for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
                exchange = {"form": file.stem, **json.loads(line)}
                if {"body", "text", "frames"} & exchange.keys():  # others are of several answers
                    yield f"{name}:{number} {exchange.get('case', '')}", exchange
        elif file.suffix in (".json", ".sse"):
            yield name, {"form": form_of(text), **came(text, file.suffix == ".sse")}
        elif file.suffix in (".yaml", ".yml"):
            yield from cassette(name, text)


def cassette(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the exchanges of a cassette that are of a model's interface."""
    import yaml

    for number, each in enumerate(yaml.safe_load(text)["interactions"], 1):
        path = each["request"]["uri"].partition("?")[0]
        forms = (form for end, form in FORM_OF_PATH.items() if path.endswith(end))
        response = each["response"]
        body = response.get("parsed_body") or response["body"]["string"]
        body = body if isinstance(body, str | bytes) else json.dumps(body)
        body = body if isinstance(body, str) else body.decode("utf-8", "surrogateescape")
        is_stream = body.startswith(("data:", "event:"))
        for form in forms:
            exchange = {"form": form, "status": response["status"]["code"]}
            yield f"{name}:{number}", {**exchange, **came(body, is_stream)}


def came(text: str, is_stream: bool) -> dict[str, Any]:
    """Return the fields of an exchange of which the answer alone is known."""
    raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    if is_stream:
        return {"asked": "streamed", "frames": [{"raw": raw}]}
    return {"asked": "whole", "text": raw}


def form_of(text: str) -> str:
    """Return the interface that an answer is of."""
    if '"response.' in text or '"output"' in text:
        return "responses"
    return "chat" if '"choices"' in text else "messages"


def read_all(folder: Path) -> dict[str, Any]:
    """Return what the models of the tree that is imported read from each exchange."""
    import asyncio
    from dataclasses import asdict

    from models.exchange_lines import FORMS, answer_of, request_of, ways
    from models.openai_server import OpenAIServer

    async def outcome(exchange: dict[str, Any], asked: str) -> dict[str, Any]:
        with OpenAIServer(answer_of(exchange)) as server:
            options = {"max_retries": 0, **exchange.get("options", {})}
            model, parts = FORMS[exchange["form"]](server.url, **options), []
            try:
                if asked == "whole":
                    parts = [await model.complete(*request_of(exchange))]
                else:
                    parts = [each async for each in model.stream(*request_of(exchange))]
                fields = asdict(parts[-1])
            except Exception as error:  # it is compared, too
                fields = {"error": f"{type(error).__name__}: {error}"}
            await model.aclose()
            pieces = [f"{type(each).__name__} {each.text}" for each in parts[:-1]]
            text = json.dumps({"pieces": pieces, **fields}, default=str)
            text = text.replace(server.url.removesuffix("/v1"), "URL")
            return json.loads(text)  # type: ignore[no-any-return]

    return {
        f"{name}, {asked}": asyncio.run(outcome(exchange, asked))
        for name, exchange in exchanges_in(folder)
        for asked in ways(exchange)
    }


def read_with(tree: Path, folder: Path) -> dict[str, Any]:
    """Return what the models of a tree read from each exchange."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{TESTS}"}
    command = [sys.executable, __file__, str(folder.resolve()), "--read"]
    made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, cwd="/")
    return json.loads(made.stdout)  # type: ignore[no-any-return]


def difference(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return two lines for each field in which two answers differ."""
    fields = [each for each in {**before, **now} if before.get(each) != now.get(each)]
    fields = [each for each in fields if before.get(each) or now.get(each)]
    return [
        line
        for each in fields
        for line in (
            f"  {each}: {before.get(each)!r:.{MAX_SHOWN_CHARS}}",
            f"  {'→':>{len(each) + 1}} {now.get(each)!r:.{MAX_SHOWN_CHARS}}",
        )
    ]


def unpacked(revision: str, folder: str) -> Path:
    """Unpack the source of a revision; return the folder."""
    archive = ["git", "-C", str(ROOT), "archive", "-o", f"{folder}/src.tar", revision, "src"]
    subprocess.run(archive, check=True)
    subprocess.run(["tar", "-xf", f"{folder}/src.tar", "-C", folder], check=True)
    return Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--with", dest="tree", default="HEAD", metavar="TREE")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read_all(given.folder)))
        return 0
    with tempfile.TemporaryDirectory() as made:
        tree = Path(given.tree).resolve()
        try:
            tree = tree if (tree / "src").is_dir() else unpacked(given.tree, made)
        except subprocess.CalledProcessError:
            parser.error(f"--with must be a revision or the path of a checkout, got {given.tree!r}")
        before, now = read_with(tree, given.folder), read_with(ROOT, given.folder)
    different = [name for name in now if before[name] != now[name]]
    for name in different:
        print(name, *difference(before[name], now[name]), sep="\n")
    print(f"{len(now)} answers, {len(different)} differ")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())

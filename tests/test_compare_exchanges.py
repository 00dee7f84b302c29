"""`scripts/compare_exchanges.py`: what two trees read from recorded exchanges."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINE = {"form": "chat", "case": "text", "asked": "whole"}
ANSWER = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
CASSETTE = """
interactions:
- request: {uri: "https://api.openai.com/v1/chat/completions"}
  response: {status: {code: 503}, body: {string: "busy"}}
"""
DIFFERENT = """\
a.jsonl:1 text, whole
  text: 'HELLO'
      → 'Hello'
b.sse, streamed
  pieces: ['TextPiece HI']
        → ['TextPiece Hi']
  text: 'HI'
      → 'Hi'
3 answers, 2 differ
"""


def compared(folder: Path, tree: str) -> tuple[int, str]:
    script = [sys.executable, str(ROOT / "scripts" / "compare_exchanges.py")]
    ended = subprocess.run([*script, str(folder), "--with", tree], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_compare_exchanges_shows_the_answers_that_another_tree_reads_in_another_way(
    tmp_path: Path,
) -> None:
    folder, other = tmp_path / "recorded", tmp_path / "other"
    folder.mkdir()
    folder.joinpath("a.jsonl").write_text(json.dumps({**LINE, "body": ANSWER}) + "\n")
    streamed = json.dumps({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    folder.joinpath("b.sse").write_text(f"data: {streamed}\n\ndata: [DONE]\n\n")
    folder.joinpath("c.yaml").write_text(CASSETTE)
    shutil.copytree(ROOT / "src", other / "src")
    assert compared(folder, str(other)) == (0, "3 answers, 0 differ\n")
    changed = other / "src" / "moothall" / "models" / "chat_answer.py"
    text = changed.read_text()
    assert text.count('return content or ""') == 1
    changed.write_text(text.replace('return content or ""', 'return (content or "").upper()'))
    assert compared(folder, str(other)) == (1, DIFFERENT)


def test_compare_exchanges_refuses_what_is_neither_revision_nor_checkout(tmp_path: Path) -> None:
    code, said = compared(tmp_path, "no-such-tree")
    assert code == 2
    assert "--with must be a revision or the path of a checkout, got 'no-such-tree'" in said

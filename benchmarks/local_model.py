"""How much of the runtime's own speed LocalModel passes on: alone, and four prompts at once.

    python benchmarks/local_model.py [--quick]

Two processes hold the same weights: one calls the runtime as its makers show it, with its own
settings, the other calls LocalModel. They take turns over the same prompts, so that a busy machine
slows both. Tokens a second are of the whole call, prompt included. One JSON object a line:

    metric, variant, value, unit, limit (the runtime's own), ratio (value to limit), target
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import show

CONTEXT_TOKENS = 1024
SLOTS = 4
TARGET = ">= 0.95 ratio"
TOPICS = ("a fox", "the sea", "an old clock", "a long road", "two rivers", "the first snow")


def prompts(number: int, repetition: int) -> list[str]:
    """Different ones each time, so that nothing of them is in a cache."""
    return [
        f"Tell a long story about {TOPICS[(number + n) % len(TOPICS)]}, number {repetition}{n}."
        for n in range(number)
    ]


def bare(path: Path, tokens: int) -> Callable[[list[str]], int]:
    """The runtime, called from as many threads as there are prompts."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.n_parallel = SLOTS
    params.verbosity = -1
    server = xllamacpp.Server(params)

    def ask(texts: list[str]) -> int:
        counts: list[int] = []

        def one(text: str) -> None:
            request = {
                "messages": [{"role": "user", "content": text}],
                "max_tokens": tokens,
                "temperature": 0,
            }
            counts.append(server.handle_chat_completions(request)["usage"]["completion_tokens"])

        threads = [threading.Thread(target=one, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    return ask


def ours(path: Path, tokens: int) -> Callable[[list[str]], int]:
    """LocalModel, called from one event loop."""
    from moothall.models import LocalModel

    model = LocalModel(path, max_tokens=tokens, context_tokens=CONTEXT_TOKENS, slots=SLOTS)
    loop = asyncio.new_event_loop()

    async def complete(texts: list[str]) -> int:
        asked = (model.complete([{"role": "user", "content": text}]) for text in texts)
        return sum(reply.usage.output_tokens for reply in await asyncio.gather(*asked))

    return lambda texts: loop.run_until_complete(complete(texts))


def serve(kind: str, path: Path, tokens: int) -> None:
    """In a process of its own: lists of prompts come in by lines, rates go out."""
    ask = {"bare": bare, "ours": ours}[kind](path, tokens)
    for line in sys.stdin:
        texts = json.loads(line)
        start = time.perf_counter()
        count = ask(texts)
        print(count / (time.perf_counter() - start), flush=True)
    # The bare one has threads that a normal exit might wait for.
    sys.stdout.flush()
    os._exit(0)


class Worker:
    """A process that serves one kind of call."""

    def __init__(self, kind: str, path: Path, tokens: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--serve", kind, str(path), str(tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rate(self, texts: list[str]) -> float:
        """Tokens a second over these prompts at once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def measure(quick: bool = False) -> list[dict[str, Any]]:
    """The figures, alone and for four prompts at once."""
    from moothall.models.local import fetching

    path = fetching.fetch()
    tokens, repetitions = (48, 3) if quick else (128, 9)
    workers = {kind: Worker(kind, path, tokens) for kind in ("bare", "ours")}
    figures = []
    try:
        for worker in workers.values():
            worker.rate(["Say hello."])  # loads it
        for number, variant in ((1, "alone"), (SLOTS, "four prompts at once")):
            rates: dict[str, list[float]] = {kind: [] for kind in workers}
            for repetition in range(repetitions):
                # Neither always comes first.
                order = list(workers) if repetition % 2 else list(workers)[::-1]
                for kind in order:
                    rates[kind].append(workers[kind].rate(prompts(number, repetition)))
            ratio = statistics.median(
                ours / bare for ours, bare in zip(rates["ours"], rates["bare"], strict=True)
            )
            figures.append(
                {
                    "metric": "LocalModel",
                    "variant": variant,
                    "value": round(statistics.median(rates["ours"]), 1),
                    "unit": "tokens/s",
                    "limit": round(statistics.median(rates["bare"]), 1),
                    "ratio": round(ratio, 3),
                    "target": TARGET,
                }
            )
    finally:
        for worker in workers.values():
            worker.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter answers")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        kind, path, tokens = args.serve
        serve(kind, Path(path), int(tokens))
    for figure in measure(args.quick):
        show(figure)


if __name__ == "__main__":
    main()

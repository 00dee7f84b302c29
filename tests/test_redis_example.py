"""The example of another broker below a space, over a Redis of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import redis

from moothall.testing import SpaceConformance

pytestmark = [
    pytest.mark.services,
    pytest.mark.xdist_group("redis"),
]

EXAMPLE = Path(__file__).parent.parent / "examples" / "redis_space.py"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis without a port: it listens on a socket of the file system."""
    socket = tmp_path_factory.mktemp("redis") / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=socket.parent) as server:
        assert server.stdout is not None
        assert any("eady to accept" in line for line in server.stdout), "it has ended"
        yield f"unix://{socket}"
        server.terminate()


def test_redis_example_answers_over_a_stream_and_leaves_nothing(redis_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        env=os.environ | {"REDIS_URL": redis_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
    with redis.Redis.from_url(redis_url) as server:
        assert server.keys() == []


class TestRedisSpace(SpaceConformance):
    @pytest.fixture(autouse=True)
    def _example(self, redis_url: str) -> None:
        spec = spec_from_file_location("redis_space", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        self.example: Any = module_from_spec(spec)
        spec.loader.exec_module(self.example)
        self.url = redis_url

    def make(self, **options: Any) -> Any:
        return self.example.RedisSpace(self.url, **options)

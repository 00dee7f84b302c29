"""What would be uploaded: built twice to the same bytes, whole, and shown well by an index."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from release.conftest import ROOT, build

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ADDRESS = "https://code.example/moothall"


def metadata(wheel: Path) -> tuple[dict[str, list[str]], str]:
    """The fields of a wheel's metadata, and the description that an index shows."""
    with ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith("/METADATA"))
        message = BytesParser().parsebytes(archive.read(name))
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    return {key: message.get_all(key, []) for key in message}, text.decode()


def test_builds_of_one_tree_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a"), build(tmp_path / "b")
    for one, other in zip(
        sorted(first.parent.iterdir()), sorted(second.parent.iterdir()), strict=True
    ):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()


def test_wheel_and_source_distribution_pass_the_checkers_of_the_index(wheel: Path) -> None:
    files = sorted(wheel.parent.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    subprocess.run([sys.executable, "-m", "check_wheel_contents", wheel], check=True)


def test_wheel_holds_every_file_of_the_package_and_its_types(wheel: Path) -> None:
    source = ROOT / "src"
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    with ZipFile(wheel) as archive:
        held = {each for each in archive.namelist() if ".dist-info/" not in each}
    assert held == {str((ROOT / each).relative_to(source)) for each in tracked}
    assert "moothall/py.typed" in held


def test_source_distribution_holds_what_its_tests_need(wheel: Path) -> None:
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {each for each in tracked if not each.startswith(".git")} <= held


def test_description_links_into_the_repository_once_its_address_is_known(
    wheel: Path, tmp_path: Path
) -> None:
    fields, plain = metadata(wheel)
    assert plain == (ROOT / "README.md").read_text()
    assert "Project-URL" not in fields
    fields, absolute = metadata(build(tmp_path, MOOTHALL_PROJECT_URL=f"{ADDRESS}/"))
    assert f"({ADDRESS}/blob/main/docs/replies.md)" in absolute
    assert f"({ADDRESS}/raw/main/docs/pictures/studio-act-light.png)" in absolute
    assert "](docs/" not in absolute
    assert f"Source, {ADDRESS}" in fields["Project-URL"]

"""`moothall doctor`: what this machine has, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import re
import shutil
import ssl
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, Literal

import click

from moothall import ConfigError, MoothallError
from moothall.build import ServerURL, counted, escaped
from moothall.cli.shared_options import (
    SETTINGS_FILE,
    journal_option,
    json_data_option,
    open_journal,
    print_json,
)
from moothall.cli.shared_options import read_settings as settings_of

State = Literal["ok", "missing", "wrong"]

_EXTRA_REQUIREMENT: Final = re.compile(r"""([\w.-]+)[^;]*;.*\bextra == ['"]([\w-]+)['"]""")
_NARROW_COLUMNS: Final = 60
_INTERNAL_EXTRAS: Final = ("all", "bench", "dev", "docs", "release", "testing")


@dataclass(frozen=True)
class Finding:
    """What was found of one thing; `remedy` is empty where there is nothing to do."""

    name: str
    state: State
    text: str
    remedy: str = ""


@click.command()
@journal_option("The journal.")
@json_data_option
def command(journal: str | None, as_json: bool) -> int:
    """Check what this machine has, and say what is missing.

    Each line is ok, missing (a feature cannot be used) or wrong (what is set does not work), with
    its remedy below. No key is shown, and nothing is called over the network. The exit code is 1 if
    something is wrong.

    \b
    Examples:
      moothall doctor
      moothall doctor --journal runs.db --json
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    findings = [
        _check_python(),
        *_check_extras(),
        _finding_of("weights", _check_weights),
        _check_keys(),
        _check_sandbox(),
        _finding_of("journal", lambda: _check_journal(journal)),
        _finding_of("settings", _check_settings),
        _check_certificates(),
        _finding_of("network", _check_network),
    ]
    if as_json:
        print_json(findings=findings)
    else:
        width = max(len(each.name) for each in findings)
        for each in findings:
            _print_finding(f"{each.state:<7}  {each.name:<{width}}  ", each)
    return int(any(each.state == "wrong" for each in findings))


def _print_finding(head: str, finding: Finding) -> None:
    """Print a finding, folded to the terminal, its remedy on a line of its own."""
    columns = shutil.get_terminal_size((120, 24)).columns
    indent = " " * (len(head) if columns >= _NARROW_COLUMNS else 2)
    for text in filter(None, (finding.text, finding.remedy and f"→ {finding.remedy}")):
        # Commands and paths stay whole words: they are there to be copied.
        lines = textwrap.wrap(
            escaped(text),
            max(columns, _NARROW_COLUMNS),
            initial_indent=head,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        click.echo("\n".join(lines))
        head = indent


def _check_python() -> Finding:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return Finding("Python", "ok", f"{python}, moothall {metadata.version('moothall')}")


def _check_extras() -> Iterator[Finding]:
    packages: dict[str, list[str]] = {}
    for requirement in metadata.requires("moothall") or ():
        if match := _EXTRA_REQUIREMENT.match(requirement):
            packages.setdefault(match[2], []).append(match[1])
    present: list[str] = []
    absent: list[str] = []
    for extra, names in sorted(packages.items()):
        if extra not in _INTERNAL_EXTRAS:
            (present if all(map(_is_installed, names)) else absent).append(extra)
    yield Finding("extras", "ok", ", ".join(present) or "none")
    if absent:
        install = f"pip install 'moothall[{absent[0]}]'"
        yield Finding("extras", "missing", ", ".join(absent), f"{install} installs the first")


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _check_weights() -> Finding:
    from moothall.models import DEFAULT_WEIGHTS, LISTED_WEIGHTS, other_weights

    present = [each.model_name for each in LISTED_WEIGHTS if each.path.exists()]
    present += [f"gguf:{path}" for path in other_weights()]
    try:
        DEFAULT_WEIGHTS.require()
    except MoothallError as error:
        return Finding("weights", "missing", ", ".join(present) or "none", str(error))
    return Finding("weights", "ok", ", ".join(present))


def _check_keys() -> Finding:
    from moothall.models import PROVIDERS

    names = [name for name, each in PROVIDERS.items() if any(each.settings)]
    if names:
        return Finding(
            "keys", "ok", f"the environment has a key or an address of {', '.join(names)}"
        )
    return Finding(
        "keys",
        "missing",
        "the environment has no key of a provider",
        "for a model behind a server, set its key, such as OPENAI_API_KEY; `moothall models` names "
        "all of them",
    )


def _check_sandbox() -> Finding:
    from moothall.agents import Shell

    try:
        Shell("bwrap")
    except MoothallError as error:
        return Finding("sandbox", "missing", "commands of agents are not confined", str(error))
    return Finding("sandbox", "ok", "bubblewrap confines the commands of agents")


_OPERATOR_WORDS: Final = {
    "operator:deaths": "ended each process",
    "operator:program": "of another program",
}


def _check_journal(path: str | None) -> Finding:
    if path is None:
        remedy = "to record runs, give --journal PATH, or set MOOTHALL_JOURNAL"
        return Finding("journal", "missing", "runs of commands are not recorded", remedy)
    with closing(open_journal(path)) as journal:
        if waits := journal.waiting(kind="operator"):
            parts = list[str]()
            for key, words in _OPERATOR_WORDS.items():
                if runs := [each.run for each in waits if each.key == key]:
                    parts.append(f"{counted(len(runs), 'run')} {words}: {', '.join(runs[:3])}")
            text = f"{journal.path}: {'; '.join(parts)}"
            return Finding("journal", "wrong", text, "decide about them: `moothall waiting`")
        return Finding("journal", "ok", f"{journal.path}: {counted(journal.sums().runs, 'run')}")


def _check_settings() -> Finding:
    from moothall.models import ModelName

    if not os.path.exists(SETTINGS_FILE):
        return Finding("settings", "ok", f"there is no {SETTINGS_FILE} in this folder")
    for command in ("act", "chat"):
        configured = settings_of(command)
        if (root := configured.get("root")) and not os.path.isdir(root):
            return Finding("settings", "wrong", f"{SETTINGS_FILE}: root: {root!r} is not a folder")
        if name := configured.get("model"):
            try:
                ModelName(name).check_spelling()
            except ConfigError as error:
                return Finding("settings", "wrong", f"{SETTINGS_FILE}: model: {error}")
    return Finding("settings", "ok", f"{SETTINGS_FILE} is right")


def _finding_of(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (click.ClickException, MoothallError) as error:
        return Finding(name, "wrong", getattr(error, "message", str(error)))


def _check_certificates() -> Finding:
    paths: Any = ssl.get_default_verify_paths()
    for variable in (paths.openssl_cafile_env, paths.openssl_capath_env):
        path = os.environ.get(variable)
        if path and not os.path.exists(path):
            remedy = f"name the file that has your network's certificates, or unset {variable}"
            return Finding("certificates", "wrong", f"{variable}: there is no {path!r}", remedy)
    store = paths.cafile or paths.capath
    if store is None:
        remedy = "install your system's ca-certificates, or set SSL_CERT_FILE"
        return Finding("certificates", "wrong", "there are none: no server can be trusted", remedy)
    other = "REQUESTS_CA_BUNDLE"
    if other in os.environ and paths.openssl_cafile_env not in os.environ:
        remedy = f"set {paths.openssl_cafile_env}={os.environ[other]}"
        return Finding("certificates", "wrong", f"{other} has no effect here", remedy)
    return Finding("certificates", "ok", f"those of {store}")


def _check_network() -> Finding:
    if ServerURL("https://example.org").is_forbidden:
        remedy = "unset MOOTHALL_OFFLINE to reach other machines"
        return Finding("network", "ok", "MOOTHALL_OFFLINE forbids calls to other machines", remedy)
    # Of a name that is reserved, so hardly one of NO_PROXY.
    places = {
        each: ServerURL(f"{each}://proxy-test.invalid").proxy_place for each in ("http", "https")
    }
    routes = [f"{scheme} through {place}" for scheme, place in places.items() if place]
    return Finding("network", "ok", ", ".join(routes) or "no proxy")

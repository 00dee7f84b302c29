"""`moothall models`: list the models that can be used, and download weights."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass, replace

import click

from moothall import MissingExtra, ModelError
from moothall.build import ServerURL
from moothall.cli.progress import ProgressLine
from moothall.cli.shared_options import (
    as_usage_error,
    json_data_option,
    print_json,
    print_text,
    weights_of,
)
from moothall.models import (
    DEFAULT_WEIGHTS,
    LISTED_WEIGHTS,
    PROVIDERS,
    ModelName,
    find_weights,
    other_weights,
    weights_source,
)
from moothall.models.local import fetching

_UNNAMED = "write the address of a server and the name of its model"
_CONNECT_S = 0.5


@dataclass(frozen=True)
class _ModelRow:
    """A row of the list: a model, or a kind of models, which has no license and no bytes."""

    name: str
    title: str
    license: str | None
    bytes: int | None
    usable: bool
    why_not: str
    gets: tuple[str, ...] = ()


@click.group(invoke_without_command=True)
@json_data_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the models, and whether each can be used.

    Those that can be used now come first. `gets` says what a provider's server is sent otherwise
    than others; what a program learns of a server stands in its log, and in `learned` of the model.
    Pass a name of the list to model() or --model. Names with
    capitals are patterns: models behind a server, or models that are downloaded when first used.

    \b
    Examples:
      moothall models
      moothall models --json
      moothall models fetch
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if ctx.invoked_subcommand is not None:
        return
    rows = sorted(_rows(), key=lambda row: not row.usable)
    if as_json:
        print_json(models=rows)
        return
    for row in rows:
        click.echo(row.name)
        size = f", {_size(row.bytes)}" if row.bytes is not None else ""
        license = f", {row.license}" if row.license else ""
        print_text(f"{row.title}{size}{license}")
        if row.gets:
            print_text(f"gets {'; '.join(row.gets)}")
        print_text("usable" if row.usable else f"not usable: {row.why_not}")


@command.command(short_help="Download weights and verify them.")
@click.argument("name", default=DEFAULT_WEIGHTS.name, shell_complete=weights_of)
@json_data_option
def fetch(name: str, as_json: bool) -> None:
    """Download weights and verify them.

    NAME is one of the list below, or hf:ORG/NAME/FILE.gguf for any GGUF file of the Hugging Face
    hub. The default is the small bundled model. An interrupted download continues where it stopped.

    \b
    Examples:
      moothall models fetch
      moothall models fetch qwen3-4b
      moothall models fetch hf:ORG/NAME/FILE.gguf
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    progress, stage = ProgressLine(), ""

    def show_progress(subject: str, done: int, total: int | None) -> None:
        nonlocal stage
        is_new, stage = subject != stage, subject
        if is_new:
            progress.close()
        if progress.is_due(last=is_new):
            progress.show(subject if is_new or not total else f"{subject}  {100 * done // total} %")

    with as_usage_error():
        weights_source(name)
    with closing(progress):
        path = fetching.fetch(name, show_progress)
    if as_json:
        print_json(name=name, path=str(path))
        return
    click.echo(f"{name} is here: {path}")
    if name.startswith("hf:"):
        click.echo(f'use it as: model("gguf:{path}")')
    else:
        click.echo(f'use it as: model("{find_weights(name).model_name}")')


def _rows() -> list[_ModelRow]:
    rows = []
    for weights in LISTED_WEIGHTS:
        size = weights.path.stat().st_size if weights.path.exists() else weights.size
        rows.append(_row(weights.model_name, weights.title, weights.license, size))
    place = " on this machine" if ServerURL("http://HOST/v1").is_forbidden else ""
    return [
        *rows,
        *(_row(f"gguf:{path}", "fetched", size=path.stat().st_size) for path in other_weights()),
        *(_provider_row(name) for name in PROVIDERS),
        _row("http://HOST/v1#NAME", f"of any server{place} with OpenAI's chat interface", url=None),
    ]


def _provider_row(name: str) -> _ModelRow:
    provider = PROVIDERS[name]
    address, _ = provider.settings
    title = f"{provider.title}, by its key" if provider.key else provider.title
    row = _row(f"{name}:NAME", title, url=address or provider.url)
    return replace(row, gets=ModelName(row.name).adaptations)


def _row(
    name: str,
    title: str,
    license: str | None = None,
    size: int | None = None,
    url: str | None = "",
) -> _ModelRow:
    """Return the row of a model, by the check that `--model` makes.

    `url` is its server's; empty for a model in this process, None if nobody has named the server.
    """
    reasons = [_UNNAMED] if url is None else []
    if url and ServerURL(url).is_forbidden:
        reasons = ["MOOTHALL_OFFLINE=1 forbids it"]
    elif url and ServerURL(url).is_loopback and not _is_open(url):
        reasons = [f"no server answers at {ServerURL(url).without_password}"]
    try:
        ModelName(name).check_usable()
    except (ModelError, MissingExtra) as error:
        reasons.insert(0, str(error))
    return _ModelRow(name, title, license, size, not reasons, "; ".join(reasons))


def _is_open(url: str) -> bool:
    """Return whether something listens at an address of this machine."""
    try:
        _, host, port = ServerURL(url).origin
        socket.create_connection((host, port or 80), _CONNECT_S).close()
    except (OSError, ValueError):
        return False
    return True


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


fetch.epilog = "\b\nWeights:\n" + "\n".join(
    f"  {each.name:<14} {_size(each.size):>7}  {each.license}" for each in LISTED_WEIGHTS
)

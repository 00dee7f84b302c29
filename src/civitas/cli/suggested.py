"""What a shell offers for the values of options."""

from __future__ import annotations

from typing import Any

from click.shell_completion import CompletionItem

from civitas.models import weights

__all__ = ["folders", "models", "weights_of"]


def models(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Names of models, and how those begin that are no list."""
    names = ["local", *(f"local:{each.name}" for each in weights.LISTED)]
    names += ["openai:", "http://", "litellm:", "hf:", "gguf:"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def folders(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Folders, which the shell itself knows."""
    return [CompletionItem(incomplete, type="dir")]


def weights_of(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Names of weights that can be fetched."""
    names = [each.name for each in weights.LISTED]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def run_ids(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """The runs of the journal that is named, the last first; none if it cannot be read."""
    import os

    from civitas.errors import CivitasError
    from civitas.journal import Journal

    path = ctx.params.get("journal") or os.environ.get("CIVITAS_JOURNAL")
    if not path or not os.path.isfile(path):
        return []
    try:
        with Journal(path) as journal:
            runs = journal.runs()
    except (CivitasError, OSError):
        return []
    found = [each for each in reversed(runs) if each.id.startswith(incomplete)]
    return [CompletionItem(each.id, help=each.task[:60]) for each in found]

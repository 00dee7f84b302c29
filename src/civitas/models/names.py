"""Models by name: what a setting, a command line or an agent's `model=` may say."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from civitas.errors import DefinitionError, ModelError, WeightsError
from civitas.models import weights

if TYPE_CHECKING:
    from civitas.models.protocol import Model

SPELLINGS = (
    "local",
    "local:NAME",
    "gguf:PATH",
    "openai:NAME",
    "http://HOST/v1#NAME",
    "litellm:PROVIDER/NAME",
    "hf:ORG/NAME",
)
"""The forms of names that `model` takes."""

# One file in memory, or one set of connections, serves everyone who names it.
_LOCK = threading.Lock()
_KEPT: weakref.WeakValueDictionary[tuple[str, ...], Model] = weakref.WeakValueDictionary()


def model(name: str | Model) -> Model:
    """The model of this name; a model is given back as it is.

    `local` is the default one in this process, `local:NAME` a listed one that `civitas models
    fetch NAME` brought, `gguf:PATH` any GGUF file. `openai:NAME` is one of OpenAI's, by the key in
    `OPENAI_API_KEY`; `http://HOST/v1#NAME`, or https, one of any server that is compatible with it
    and asks for no key. `litellm:PROVIDER/NAME` is one of any provider that litellm knows, by the
    key in that provider's variable; `hf:ORG/NAME` one of the Hugging Face hub on PyTorch, or, with
    `hf:./FOLDER`, of a folder. While it is in use, the same name gives the same model.

    Raises:
        ModelError: nothing is called so, or there is no key
        WeightsError: the weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
    """
    if not isinstance(name, str):
        if callable(getattr(name, "complete", None)):
            return name
        raise ModelError(f"{name!r:.80} is neither a model nor the name of one; {_there_is()}")
    kind, colon, rest = name.partition(":")
    if kind == "local" and (rest or not colon):
        return _local(f"local:{rest or weights.DEFAULT.name}", rest or None)
    if kind == "gguf" and rest:
        return _loaded(name, rest)
    if kind == "openai" and rest:
        return _connected(rest, None)
    if kind == "litellm" and rest:
        from civitas.models.remote.litellm import LiteLLMModel

        return _kept((name,), lambda: LiteLLMModel(rest))
    if kind == "hf" and rest:
        from civitas.models.transformers import TransformersModel

        return _kept((name,), lambda: TransformersModel(rest))
    if kind in ("http", "https"):
        url, _, listed = name.partition("#")
        if not listed:
            raise ModelError(f"{name!r:.200} does not say which model: write {url:.200}#NAME")
        return _connected(listed, url)
    raise ModelError(f"there is no model {name!r}; {_there_is()}")


def _there_is() -> str:
    return f"names are {', '.join(SPELLINGS)}; `civitas models` lists what is usable"


def _local(name: str, listed: str | None) -> Model:
    if listed is None or listed == weights.DEFAULT.name:
        return _loaded(name, None)
    path = weights.named(listed).path
    if not path.exists():
        raise WeightsError(
            f"the weights of {listed} are not there yet; run: civitas models fetch {listed}"
        )
    return _loaded(name, path)


def _loaded(name: str, path: Any) -> Model:
    from civitas.models.local import LocalModel

    return _kept((name,), lambda: LocalModel(path, name=name))


def _connected(listed: str, url: str | None) -> Model:
    from civitas.models.remote.openai import OpenAIModel

    # What the environment says is part of what a name means.
    setting = [os.environ.get(each, "") for each in ("OPENAI_BASE_URL", "OPENAI_API_KEY")]
    key = (listed, url) if url else (listed, "", *setting)
    return _kept(key, lambda: OpenAIModel(listed, url))


def _kept(key: tuple[str, ...], make: Callable[[], Model]) -> Model:
    """The model that is in use under a name, or a new one."""
    with _LOCK:
        found = _KEPT.get(key)
        if found is None or getattr(found, "closed", False):
            try:
                found = _KEPT[key] = make()
            except DefinitionError as error:
                raise ModelError(f"there is no such model: {error}") from error
        return found

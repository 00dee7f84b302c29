"""Models by name, as in a setting, on a command line or in an agent's `model=`."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import parse_qsl

from moothall.foundation.errors import ConfigError, DefinitionError, MissingExtra, ModelError
from moothall.foundation.http.server_url import ServerURL
from moothall.foundation.lazily import set_public_modules
from moothall.foundation.text import nearest
from moothall.foundation.threads import guard, in_child
from moothall.models.base import with_options
from moothall.models.local import weights
from moothall.models.providers import (
    ANY_SERVER,
    BY_FAMILY,
    OUR_PROVIDERS,
    PROVIDERS,
    missing_variable,
)

if TYPE_CHECKING:
    from moothall.models.protocol import Model
    from moothall.models.remote.server_settings import ServerOptions

SPELLINGS = (
    "local",
    "local:NAME",
    "gguf:PATH",
    *(f"{each}:NAME" for each in OUR_PROVIDERS),
    "http://HOST/v1#NAME",
)
"""The forms of names that `model` takes."""

# For each kind: what it is, the extra that it needs, and that extra's packages.
_LOCAL_REQUIREMENT = ("a model inside this process", "local", ("xllamacpp",))
_SERVERS = {**OUR_PROVIDERS, "http": ANY_SERVER, "https": ANY_SERVER}
_REQUIREMENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    **dict.fromkeys(("local", "gguf"), _LOCAL_REQUIREMENT),
    **{name: (each.class_name, "openai", ("aiohttp",)) for name, each in _SERVERS.items()},
}
KINDS = frozenset(_REQUIREMENTS)
"""What a name of a model may begin with, before the colon, beside providers of other packages."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_SETTINGS_FORM = re.compile(r"\w+=[^=&?#]+(?:&\w+=[^=&?#]+)*")
_LOCAL_SETTINGS = ("context_tokens", "max_tokens", "seed", "temperature", "thinking")
"""The settings that are arguments of `LocalModel`; the others are among its options."""
_SUGGESTIONS = (*_REQUIREMENTS, *(f"local:{each.name}" for each in weights.LISTED_WEIGHTS))

# All users of a name share one file in memory, or one set of connections.
_LOCK = guard()
_MODELS: weakref.WeakValueDictionary[tuple[str, ...], Model] = weakref.WeakValueDictionary()
in_child(_MODELS.clear)  # a model's threads and connections stay with the parent


def model(
    name: str | Model, api_key: str | None = None, **of_server: Unpack[ServerOptions]
) -> Model:
    """Return the model of this name; return a model as it is.

    `local` is the default model in this process, `local:NAME` a listed one that `moothall models
    fetch NAME` fetched, `gguf:PATH` any GGUF file. `openai:NAME` is a model of OpenAI, with the key
    in `OPENAI_API_KEY`; `anthropic`, `azure`, `cerebras`, `deepseek`, `gemini`, `groq`, `mistral`,
    `ollama` and `openrouter` are named in the same way. `http://HOST/v1#NAME`, or https, is one of
    any server that is compatible with OpenAI's. Settings may follow: `openai:NAME?temperature=0`,
    `local?seed=7&top_p=0.9`; each is a field of its requests, or an argument or option of
    `LocalModel`. While a model is in use, the same name returns the same model.

    Args:
        name: the name, or a model
        api_key: the key of the server, in place of the environment's
        **of_server: of a model behind a server, what `OpenAIModel` takes of it, such as `timeout=`,
            or `batch=True`: requests go in batches, at half the price and answered within a day

    Raises:
        ConfigError: the model is not behind a server, and one of these is given
        ModelError: no model has this name; without a key, its first call says so
        WeightsError: the weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
    """
    if not isinstance(name, str):
        if callable(getattr(name, "complete", None)):
            return name
        raise ModelError(f"{name!r:.80} is neither a model nor the name of one; {_usable_names()}")
    kind, target = check_name(name, needs_key=False)
    full_name, (name, options) = name, _split_settings(name)
    misplaced = [f"{each}=" for each, value in of_server.items() if value]
    if misplaced and not is_remote(name):
        raise ConfigError(f"{name:.200} is not behind a server: leave out {', '.join(misplaced)}")
    if kind in ("local", "gguf"):
        from moothall.models.local.local_model import LocalModel

        path = Path(target)
        if kind == "local":
            weights_entry = weights.find_weights(target or weights.DEFAULT_WEIGHTS.name)
            name, path = f"local:{weights_entry.name}", weights_entry.path
        arguments: dict[str, Any] = {
            each: options.pop(each) for each in _LOCAL_SETTINGS if each in options
        }
        key: tuple[str, ...] = (name, full_name.partition("?")[2])
        return _shared_model(key, lambda: LocalModel(path, name=name, options=options, **arguments))
    # The environment is part of what a name means.
    server_identity = (api_key or "", repr(sorted(of_server.items())))
    key = (full_name, *server_identity, *(PROVIDERS[kind].settings if kind in PROVIDERS else ()))
    if kind in PROVIDERS:
        module_name = PROVIDERS[kind].form.partition(".")[0]
        module: Any = import_module(f"moothall.models.remote.{module_name}")

        def make_model() -> Any:
            return with_options(module.of_provider(kind, target, api_key, **of_server), options)

        return _shared_model(key, make_model)
    from moothall.models.remote.openai import OpenAIModel

    url, _, server_model = name.partition("#")
    return _shared_model(
        key, lambda: with_options(OpenAIModel(server_model, url, api_key, **of_server), options)
    )


def check_name(name: str, key: str | None = None, *, needs_key: bool = True) -> tuple[str, str]:
    """Return a name's kind of model and its rest; raise what `model` raises, but load nothing.

    Without `needs_key`, the first call says that its server wants a key and there is none.
    """
    kind, target = check_spelling(name)
    label, extra, packages = _requirement(kind) or _LOCAL_REQUIREMENT
    MissingExtra.unless(label, extra, *packages)
    missing_name = missing_variable(kind) if kind in PROVIDERS else ""
    if missing_name == PROVIDERS.get(kind, ANY_SERVER).key:
        missing_name = missing_name if needs_key and not key else ""
    if missing_name:
        part = "key" if missing_name.endswith("_KEY") else "address"
        raise ModelError(f"{name:.200}: there is no {part}: set {missing_name}")
    if kind == "local":
        weights.find_weights(target or weights.DEFAULT_WEIGHTS.name).require()
    elif kind == "gguf":
        weights.check_gguf(Path(target).expanduser())
    return kind, target


def check_spelling(name: str) -> tuple[str, str]:
    """Return a name's kind of model and the rest; raise ModelError if no model can have it."""
    name, _ = _split_settings(name)
    kind, colon, target = name.partition(":")
    if kind == "hf" or _HUB_NAME.fullmatch(name):
        owner, _, own_name = name.partition("/")
        hint = f" (did you mean '{owner}:{own_name}'?)" if owner in PROVIDERS else ""
        raise ModelError(
            f"there is no model {name!r:.200}{hint}: a model of the Hugging Face hub runs "
            "behind a server (such as `vllm serve ORG/NAME`), or here from a GGUF file "
            f"(`moothall models fetch hf:ORG/NAME/FILE.gguf`); {_usable_names()}"
        )
    is_known = _requirement(kind) is not None
    if not is_known or bool(target) != bool(colon) or (not target and kind != "local"):
        provider = None if colon else BY_FAMILY.get(kind.partition("-")[0])
        provider_hint = f" (did you mean '{provider}:{name:.200}'?)" if provider else ""
        hint = "" if is_known else provider_hint or nearest(name, _SUGGESTIONS)
        raise ModelError(f"there is no model {name!r:.200}{hint}; {_usable_names()}")
    if kind in ("http", "https"):
        url, _, server_model = name.partition("#")
        if not server_model:
            raise ModelError(f"{name!r:.200} does not say which model: write {url:.200}#NAME")
        try:
            ServerURL.checked(url, "its address", query=True)
        except DefinitionError as error:
            raise ModelError(f"there is no such model: {error}") from None
    if kind == "local":
        if "/" in target or "\\" in target or target.endswith(".gguf"):
            raise ModelError(f"{name!r:.200} is a file: write gguf:{target:.200}")
        weights.find_weights(target or weights.DEFAULT_WEIGHTS.name)
    return kind, target


def _split_settings(name: str) -> tuple[str, dict[str, Any]]:
    """Return a model's name without its settings, and these."""
    model_name, _, query = name.rpartition("?")
    # A question mark of an address stands before the name that follows "#".
    is_address = name.startswith(("http://", "https://")) and "#" not in model_name
    if is_address or not _SETTINGS_FORM.fullmatch(query):
        return name, {}
    return model_name, {each: _value(text) for each, text in parse_qsl(query)}


def _value(text: str) -> Any:
    """Return a setting's value: a number, true, false or other JSON, or else a text."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def is_remote(name: str) -> bool:
    """Return whether a name is that of a model on a server, which may cost money."""
    kind = name.partition(":")[0]
    return _requirement(kind) not in (None, _LOCAL_REQUIREMENT)


def _requirement(kind: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return what a kind of model is, its extra and that extra's packages; None of no kind."""
    if kind in _REQUIREMENTS or kind not in PROVIDERS:
        return _REQUIREMENTS.get(kind)
    return PROVIDERS[kind].class_name, "openai", ("aiohttp",)


def _usable_names() -> str:
    return f"names are {', '.join(SPELLINGS)}; `moothall models` lists what is usable"


def _shared_model(key: tuple[str, ...], make: Callable[[], Model]) -> Model:
    """Return the model in use under a name, or a new one."""
    with _LOCK:
        shared_model = _MODELS.get(key)
        if shared_model is None or getattr(shared_model, "closed", False):
            try:
                shared_model = _MODELS[key] = make()
                set_public_modules()
            except DefinitionError as error:
                raise ModelError(f"there is no such model: {error}") from error
        return shared_model

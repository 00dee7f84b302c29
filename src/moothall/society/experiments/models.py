"""The functions that an experiment names: `file.py:function`, or the town that it has else."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, get_type_hints
from weakref import WeakValueDictionary

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, create_model

from moothall import Block, BlockParams, ConfigError, ModelError, model
from moothall.budget import Budget
from moothall.build import check_function, error_text
from moothall.models import ModelName
from moothall.society import blocks as known
from moothall.society.blocks.citizen_block import DEFAULT_BLOCKS
from moothall.society.city.city import City
from moothall.society.clock import Clock
from moothall.society.kernel.citizen import CitizenAgentParams
from moothall.society.people import generator
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams
from moothall.society.people.table import read_people
from moothall.society.population.engine import LocalEngine
from moothall.society.population.population import Population
from moothall.society.services.economy import make_economy
from moothall.society.services.feed import Feed
from moothall.society.services.labour import LabourMarket
from moothall.society.society import Society

_BLOCKS: Final = [name for name in dir(known) if name.endswith("Block") and name != "CitizenBlock"]
_PROMPTS: Final = {"citizen": "decision_prompt", "dispatcher": "block_dispatch_prompt"}
"""The prompts that are of no block, and the parameter of a citizen that has each."""
_Text = Annotated[str, Field(min_length=1)] | None
_RECORDED_MODELS: WeakValueDictionary[tuple[str, Path], Any] = WeakValueDictionary()


@functools.cache
def town_parameters(own_blocks: tuple[tuple[str, type[Block]], ...] = ()) -> type[BaseModel]:
    """Return the parameters of a town as a pydantic model, with blocks of files (`own_blocks`)."""
    blocks: dict[str, Any] = {
        name: (getattr(known, f"{name}Params") | None, None) for name in _BLOCKS
    }
    prompts: dict[str, Any] = dict.fromkeys((*_PROMPTS, *blocks), (_Text, None))
    for number, (name, block) in enumerate(own_blocks):
        kind = block.ParamsType or BlockParams
        blocks[f"own{number}"] = (kind | None, Field(None, alias=name))
        if "prompt" in kind.model_fields:
            prompts[f"own{number}"] = (_Text, Field(None, alias=name))
    config = ConfigDict(extra="forbid")
    kinds = get_type_hints(town, include_extras=True)
    kinds["blocks"] = create_model("Blocks", __config__=config, **blocks)
    kinds["prompts"] = create_model("Prompts", __config__=config, **prompts)
    llm = Annotated[str, AfterValidator(_check_model_name)] | None
    parameters = inspect.signature(LabourMarket).parameters
    rates: dict[str, Any] = {
        name: (Annotated[int, Field(ge=0, strict=True)] | None, None)
        for name in parameters
        if name not in ("id", "seed")
    }
    kinds["labour"] = create_model("Labour", __config__=config, **rates) | None
    kinds |= {"params": CitizenAgentParams, "people": PeopleParams, "llm": llm}
    fields: dict[str, Any] = {name: (kind, None) for name, kind in kinds.items()}
    return create_model("Parameters", __config__=ConfigDict(arbitrary_types_allowed=True), **fields)


def _check_file(value: object, info: ValidationInfo) -> object:
    folder: Any = info.context
    if isinstance(value, str) and not (folder / value).is_file():
        raise ValueError(f"there is no file {value!r} in the folder of the experiment")
    return value


def _check_model_name(name: str, info: ValidationInfo) -> str:
    try:
        if is_of_file(name):
            function_of(name, info.context or Path())
        else:
            ModelName(name).check_spelling()
    except (ConfigError, ModelError) as error:
        raise ValueError(str(error)) from None
    return name


def _check_start(value: str) -> str:
    Clock(start=value)
    return value


def town(
    seed: int,
    *,
    citizens: Annotated[
        Annotated[int, Field(ge=1, strict=True)] | str, AfterValidator(_check_file)
    ] = 100,
    city: Annotated[str | None, AfterValidator(_check_file)] = None,
    blocks: Mapping[str, Mapping[str, Any] | None] | None = None,
    prompts: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    start: Annotated[str, AfterValidator(_check_start)] = "2026-01-05T00:00",
    economy: bool = True,
    labour: Mapping[str, int] | None = None,
    people: Mapping[str, Any] | None = None,
    feed: bool = True,
    llm: Any = None,
    answers: str | None = None,
    max_usd: Annotated[float, Field(ge=0)] | None = None,
    max_calls: Annotated[int, Field(ge=0)] | None = None,
    columns: bool = False,
    threads: Annotated[int, Field(ge=1)] = 1,
    folder: Path = Path(),
) -> Society:
    """Return a town drawn from its seed; with `columns` its citizens are a `Population`."""
    count = citizens if isinstance(citizens, int) else len(read_people(folder / citizens))
    if city is not None:
        town_city = _city_of(folder / city, count)
    else:
        town_city = City.generate(seed=seed, citizens=max(10, count))
    if columns and (llm is not None or params):
        raise ConfigError("columns: citizens must be without a model and params")
    texts = dict(prompts or {})
    agent_prompts = {_PROMPTS[name]: texts.pop(name) for name in [*texts] if name in _PROMPTS}
    own_params = CitizenAgentParams(**{**dict(params or {}), **agent_prompts})
    block_params = {name: dict(each or {}) for name, each in (blocks or {}).items()}
    for name, text in texts.items():
        block_params.setdefault(name, {})["prompt"] = text
    make_blocks = _blocks_of(block_params, folder)
    budget = None
    if not (max_usd is None and max_calls is None):
        budget = Budget(usd=max_usd, model_calls=max_calls, name="an experiment's cell")
    if labour and not economy:
        raise ConfigError("labour: there is no labour market without an economy")
    rates: dict[str, Any] = {"seed": seed, **(labour or {})}
    market = LabourMarket(**rates)
    services = make_economy(town_city, seed=seed, labour=market) if economy else []
    people_params = PeopleParams(**(people or {}))
    inhabitants: Any
    if columns and isinstance(citizens, int):
        inhabitants = Population(citizens, town_city, make_blocks(), seed, people=people_params)
    elif isinstance(citizens, int):
        inhabitants = generator.CitizenDraw(citizens, make_blocks, own_params)
    else:
        read = read_people(folder / citizens, town_city)
        rows = generator.completed(read, town_city, seed=seed, params=people_params)
        if columns:
            inhabitants = Population(rows, town_city, make_blocks(), seed, people=people_params)
        else:
            inhabitants = generator.citizens(rows, make_blocks, agent_params=own_params)
    return Society(
        inhabitants,
        town_city,
        seed=seed,
        model=model_of(llm, None if answers is None else folder / answers, folder),
        services=[*services, *([Feed()] if feed else [])],
        budget=budget,
        start=start,
        facts=facts,
        engine=LocalEngine(threads=threads),
        people=people_params if isinstance(inhabitants, generator.CitizenDraw) else USUAL_PEOPLE,
    )


def _city_of(path: Path, citizens: int) -> City:
    """Return the city of a file: a map, by its suffix, or JSON of `City.to_json`."""
    if path.suffix.startswith(".geojson"):  # `.geojsonl`, `.geojsonseq`: a feature a line
        return City.from_geojson(path, citizens=citizens)
    if path.suffix == ".osm" or path.name.endswith(".osm.pbf"):
        return City.from_osm(path, citizens=citizens)
    try:
        return City.from_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"city: {path.name!r} cannot be read: {error.strerror}") from None


def _blocks_of(params: Mapping[str, dict[str, Any]], folder: Path) -> Callable[[], list[Any]]:
    """Return a function that makes a citizen's blocks: the shipped ones, then those of files."""
    shipped = [f"{name}Block" for name in DEFAULT_BLOCKS]
    names = [*shipped, *(name for name in params if name not in shipped)]
    kinds = []
    for name in names:
        kind = block_of(name, folder) if is_of_file(name) else getattr(known, name)
        parameters = kind.ParamsType or BlockParams
        kinds.append((kind, parameters(**params[name]) if name in params else None))
    return lambda: [kind(block_params=parameters) for kind, parameters in kinds]


def model_of(name: object, answers: Path | None = None, folder: Path = Path()) -> Any:
    """Return the model of a name, its answers recorded and replayed; a model as it is."""
    from moothall import RecordedModel

    if not isinstance(name, str):
        return name
    source = name
    if is_of_file(name):
        source = function_of(name, folder)()
        if not callable(getattr(source, "complete", None)):
            raise ConfigError(f"llm: {name!r} must return a model, got {source!r:.80}")
    elif answers is None:  # answers that were recorded need no key
        ModelName(source).check_usable()
    if answers is None:
        return model(source)
    # A branch has the answers that are given to its trunk, and the trunk those of its branch.
    recorded = _RECORDED_MODELS.get((name, answers))
    if recorded is None:
        recorded = _RECORDED_MODELS[name, answers] = RecordedModel(source, answers)
    return recorded


# -- functions of files ----------------------------------------------------------------------------

Source = str | Callable[..., Any]  # a function, `file.py:function`, or `TOWN`
TOWN: Final = "town"

_LOADED_MODULES: dict[tuple[Path, int], ModuleType] = {}
_FOLDER_MODULES: dict[str, dict[str, ModuleType]] = {}
"""The modules beside a folder's files, by folder: two experiments may have a `helpers.py`."""


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make the files of a folder importable meanwhile, as those beside a script are."""
    root = str(folder.resolve())
    if any(os.path.realpath(each) == root for each in sys.path):  # "" in a notebook
        yield
        return
    modules_before = set(sys.modules)
    sys.modules.update(_FOLDER_MODULES.get(root, {}))
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)
        own_modules = [name for name in set(sys.modules) - modules_before if _lies_in(root, name)]
        _FOLDER_MODULES[root] = {name: sys.modules.pop(name) for name in own_modules}


def _lies_in(root: str, name: str) -> bool:
    """Return whether a module is found in a folder itself, not in an environment below it."""
    file = getattr(sys.modules[name], "__file__", None)
    if not file or not Path(file).is_relative_to(root):
        return False
    return Path(file).relative_to(root).parts[0].partition(".")[0] == name.partition(".")[0]


def function_of(source: Source, folder: Path, *takes: str) -> Callable[..., Any]:
    """Return a function; the file below `folder` that has it is run once, as an import does.

    With `takes`, it must be a function of these arguments.
    """
    if not isinstance(source, str):
        if takes:
            check_function("it", source, *takes)
        return source
    if source == TOWN:
        return town
    name, _, attribute = source.rpartition(":")
    if not name.endswith(".py") or not attribute.isidentifier():
        raise ConfigError(f"must be file.py:function, got {source!r:.200}")
    path, root = (folder / name).resolve(), folder.resolve()
    if not path.is_relative_to(root):
        raise ConfigError(f"{name!r} is not in the folder of the experiment, {root}")
    function = getattr(_load_module(path, name, root), attribute, None)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(f"{name!r} has no plain function {attribute!r}")
    if takes:
        check_function(repr(source), function, *takes)
    return function  # type: ignore[no-any-return]


def is_of_file(name: object) -> bool:
    """Return whether a name is that of something in a file: `file.py:name`."""
    return isinstance(name, str) and ".py:" in name


def block_of(source: str, folder: Path) -> type[Block]:
    """Return the class of a block in a file below `folder`."""
    block = function_of(source, folder)
    if not (isinstance(block, type) and issubclass(block, Block)):
        raise ConfigError(f"{source!r} must be a class of Block, got {block!r:.80}")
    return block


def _load_module(path: Path, name: str, root: Path) -> ModuleType:
    """Return the module of a file, run once for each version of it."""
    try:
        key = (path, path.stat().st_mtime_ns)
    except OSError:
        raise ConfigError(f"there is no file {name!r} in the folder of the experiment") from None
    if key not in _LOADED_MODULES:
        spec: Any = importlib.util.spec_from_file_location(f"_experiment_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look there
        try:
            with importable(root):
                spec.loader.exec_module(module)
        except Exception as error:
            raise ConfigError(f"{name!r} cannot be run: {error_text(error)}") from error
        _LOADED_MODULES[key] = module
    return _LOADED_MODULES[key]


def plain_value(value: object) -> Any:
    """Return JSON data with functions replaced by their names."""
    if isinstance(value, Mapping):
        return {key: plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    return getattr(value, "__qualname__", repr(value)) if callable(value) else value


def source_code(source: Source, folder: Path) -> bytes:
    """Return the text of a function's file and of those that it imports: it tells code apart."""
    if isinstance(source, str) and source != TOWN:
        files: dict[Path, bytes] = {}
        _read_with_imports(folder / source.rpartition(":")[0], folder, files)
        return b"\0".join(files.values())
    try:
        return inspect.getsource(function_of(source, folder)).encode()
    except (OSError, TypeError):  # typed at a prompt
        return repr(plain_value(source)).encode()


def _read_with_imports(path: Path, folder: Path, files: dict[Path, bytes]) -> None:
    """Read a file of Python, and the files of a folder that it imports, into `files`."""
    files[path] = path.read_bytes()
    for node in ast.walk(ast.parse(files[path])):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            base = folder.joinpath(*name.split("."))
            for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                if file not in files and file.is_file():
                    _read_with_imports(file, folder, files)

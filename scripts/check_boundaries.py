"""Check boundaries: products take public names, and nothing reads another object's private names.

    check_boundaries.py [-v]

A product is what a program could write for itself: `PRODUCTS`. A name is public if a package of the
reference states it, in its `.pyi` or its `__all__`; it counts as the thing where it is defined,
whichever way it is imported. A product imports it from such a package, as everybody does: core
names from `moothall`, its public packages or `moothall.build`. A private read is `x._name`, or
`getattr(x, "_name")`, of a name of ours, where x is neither `self` nor of the class that reads;
functions may read what their module defines. Nor does a class of a product use or define a private
name of a core class that it derives from. `NAMES` and `READS` say how many a package still has:
they only fall. With -v each is printed with its place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from check_names import ROOT, faults

PRODUCTS = (
    *("cli", "evals", "research", "serving", "society", "studio", "testing"),
    *("agents/notes", "agents/ready", "agents/skills"),
)
DETOURS: dict[str, int] = {}
"""How many imports of public names a package's products still make from a private place."""
NAMES: dict[str, int] = {}
"""How many names that are not public a package's products still take; one not here takes none."""
READS = {"spaces": 1}
"""How many private names of other objects a package still reads; one not here reads none."""
OF_PYTHON = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Public names of Python that begin so."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_private(name: object) -> bool:
    return isinstance(name, str) and name[:1] == "_" and name[:2] != "__" and name not in OF_PYTHON


def is_named(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def is_self(node: ast.AST) -> bool:
    """Return whether it is the object itself: `self`, `cls`, `super()` or `type(self)`."""
    if isinstance(node, ast.Call):
        return is_named(node.func, "super", "type")
    return is_named(node, "self", "cls")


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names that a class, or a module with its classes, defines."""
    names: set[object] = set()
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if is_self(node.value) else set()
        elif isinstance(node, ast.Assign) and is_named(node.targets[0], "__slots__"):
            names |= {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
    return {name for name in names if isinstance(name, str) and is_private(name)}


def reads_in(node: ast.AST, own: set[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, object and name of each private read, below a class with these names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from reads_in(child, private_names(child))
            continue
        place: tuple[ast.expr, object] | None = None
        if isinstance(child, ast.Attribute):
            place = child.value, child.attr
        elif isinstance(child, ast.Call) and is_named(child.func, "getattr", "hasattr", "setattr"):
            place = child.args[0], getattr(child.args[1], "value", None)
        if place and is_private(place[1]) and place[1] not in own and not is_self(place[0]):
            yield place[0].lineno, ast.unparse(place[0]), str(place[1])
        yield from reads_in(child, own)


class Source:
    """The modules of a package, and what its packages state."""

    def __init__(self, root: Path, reference: set[str]) -> None:
        self.root, self.prefix = root, f"{root.name}."
        files = {self._module(path): path for path in sorted(root.rglob("*.py"))}
        self.files = {name: path.relative_to(root).as_posix() for name, path in files.items()}
        self.trees = {name: ast.parse(path.read_text()) for name, path in files.items()}
        self.stubs = {
            self._module(path): ast.parse(path.read_text()) for path in root.rglob("*.pyi")
        }
        self.homes: dict[str, dict[str, tuple[str, str]]] = {}
        for module, tree in (*self.trees.items(), *self.stubs.items()):
            homes = self.homes.setdefault(module, {})
            homes.update((name, (home, there)) for name, home, there, _ in self._imports(tree))
        for module in self.stubs:  # `import *` stands for all names of another
            if star := self.homes[module].pop("*", None):
                named = (each.rpartition(".") for each in self._stated(star[0]))
                self.homes[module].update((name, (home, name)) for home, _, name in named)
        self.reference = reference
        self.public = {each for module in reference for each in self._stated(module)}

    def _module(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    def _imports(self, tree: ast.AST) -> Iterator[tuple[str, str, str, int]]:
        """Yield what a file imports of ours: its name there, module, name in it, line."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(self.prefix):
                for each in node.names:
                    yield each.asname or each.name, str(node.module), each.name, node.lineno

    def _stated(self, module: str) -> Iterator[str]:
        """Yield the public names of a package; of a module, its classes."""
        for name, home, there, _ in self._imports(self.stubs.get(module, ast.Module([], []))):
            if name == "*":
                yield from self._stated(home)
            else:
                yield self.home(home, there)
                if self.home(home, there) in self.trees:  # a module: what it states
                    yield from self._stated(self.home(home, there))
        for node in self.trees[module].body:
            if isinstance(node, ast.ClassDef) and not is_private(node.name):
                yield f"{module}.{node.name}"
            elif isinstance(node, ast.Assign) and is_named(node.targets[0], "__all__"):
                yield from (self.home(module, each) for each in ast.literal_eval(node.value))

    def home(self, module: str, name: str) -> str:
        """Return where a name is defined, through what imports it."""
        home = self.homes.get(module, {}).get(name)
        return self.home(*home) if home and home != (module, name) else f"{module}.{name}"

    def package(self, module: str) -> str:
        """Return the product that a module is of, or else its package."""
        name = "/".join(module.split(".")[1:])
        for each in PRODUCTS:
            if f"{name}/".startswith(f"{each}/"):
                return each
        return name.partition("/")[0]

    def names_taken(self) -> list[str]:
        """Return what each product takes of other packages that is not public, once each."""
        places: dict[tuple[str, str], str] = {}
        for module, tree in self.trees.items():
            product = self.package(module)
            if product not in PRODUCTS:
                continue
            attributes = [
                (node.value.id, node.attr)
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            ]
            for name, home, there, line in self._imports(tree):
                names = [self.home(home, there)]
                if names[0] in self.trees:  # a module: what is used of it
                    names = [self.home(names[0], of) for held, of in attributes if held == name]
                for each in names:
                    if each not in self.public and self.package(each) != product:
                        place = f"{self.files[module]}:{line} {each}"
                        places.setdefault((product, each), place)
        return [*places.values()]

    def detours(self) -> list[str]:
        """Return where products take public names of other packages from a private place."""
        return [
            f"{self.files[module]}:{line} {home}.{there}"
            for module, tree in self.trees.items()
            if (product := self.package(module)) in PRODUCTS
            for _, home, there, line in self._imports(tree)
            if (name := self.home(home, there)) in self.public
            if home not in self.reference and self.package(name) != product
        ]

    def private_reads(self) -> list[str]:
        """Return where a private name of another object is read."""
        owned = {each: private_names(tree) for each, tree in self.trees.items()}
        ours = set().union(*owned.values())
        return [
            f"{self.files[module]}:{line} {of}.{name}"
            for module, tree in self.trees.items()
            for line, of, name in reads_in(tree, owned[module])
            if name in ours
        ]

    def inherited(self) -> list[str]:
        """Return where a product's class uses or defines a private name of a core base class."""
        classes = {
            f"{module}.{node.name}": (module, node)
            for module, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

        def above(name: str) -> Iterator[str]:
            module, node = classes[name]
            for base in node.bases:
                plain = base.value if isinstance(base, ast.Subscript) else base
                home = self.home(module, plain.id) if isinstance(plain, ast.Name) else ""
                if home in classes:
                    yield home
                    yield from above(home)

        found = []
        for name, (module, node) in classes.items():
            if self.package(module) not in PRODUCTS:
                continue
            used = private_names(node) | {
                each.attr
                for each in ast.walk(node)
                if isinstance(each, ast.Attribute) and is_self(each.value)
            }
            for base in dict.fromkeys(above(name)):
                if self.package(classes[base][0]) not in PRODUCTS:
                    common = sorted(used & (private_names(classes[base][1]) - {"_"}))
                    place = f"{self.files[module]}:{node.lineno} {node.name}"
                    found += [f"{place}.{each} of {base}" for each in common]
        return found


def reference() -> set[str]:
    """Return the packages that the site's reference has."""
    tree = ast.parse((ROOT / "scripts" / "site_pages.py").read_text())
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and is_named(node.targets[0], "PACKAGES")
    ]
    return {"moothall", *ast.literal_eval(tables[0])}


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    source = Source(ROOT / "src" / "moothall", reference())
    names, reads, detours = source.names_taken(), source.private_reads(), source.detours()
    inherited = source.inherited()
    if "-v" in sys.argv:
        print(*names, *detours, *reads, *inherited, sep="\n")
    wrong = [
        *faults("public names are imported from a private place", detours, DETOURS),
        *faults("names are taken that are not public", names, NAMES),
        *faults("private names of other objects are read", reads, READS),
        *faults("private names of core base classes are used or overridden", inherited, {}),
    ]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

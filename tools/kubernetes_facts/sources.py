"""A Kubernetes source tree: the Go type behind an OpenAPI name."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Final

from tools.kubernetes_facts.gosource import GoPackage, GoSourceError, GoType, read_package

#: Where a source tree has what it publishes as modules of their own, and the path of what is in no such module.
_STAGING: Final = Path("staging", "src")
_ITSELF: Final = "k8s.io/kubernetes/"
_NAME: Final = re.compile(r"(?<![\w.])(?:(\w+)\.)?(\w+)")
_BASIC: Final = frozenset({
    "bool", "byte", "float32", "float64", "int", "int32", "int64", "interface", "map", "string", "uint8", "uint32",
})  # fmt: skip


class Sources:
    """The packages of a tree, each read once and only if it is needed."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self.package = cache(self._package)

    def declares(self, definition: str) -> bool:
        package, _, name = definition.rpartition(".")
        return name in self.package(package).types

    def type(self, definition: str) -> GoType:
        """What declares a definition."""
        if not self.declares(definition):
            raise GoSourceError(f"the sources declare no {definition}")
        package, _, name = definition.rpartition(".")
        return self.package(package).types[name]

    def full(self, text: str, user: str) -> str:
        """A Go type as the definition `user` writes it, with every name in it as an OpenAPI name; aliases resolved."""
        package = user.rpartition(".")[0]
        imports = self.type(user).imports

        def replaced(found: re.Match[str]) -> str:
            qualifier, name = found.groups()
            if not qualifier and name in _BASIC:
                return name
            return self._canonical(f"{openapi_package(imports[qualifier]) if qualifier else package}.{name}")

        return _NAME.sub(replaced, text)

    def constant(self, package: str, name: str) -> str:
        """The string that a constant stands for."""
        found = self.package(package).constants.get(name)
        if found is None:
            raise GoSourceError(f"{package} declares no constant {name}")
        if found.value.startswith('"'):
            value: str = json.loads(found.value)
            return value
        qualifier, _, name = found.value.rpartition(".")
        return self.constant(openapi_package(found.imports[qualifier]) if qualifier else package, name)

    def _canonical(self, definition: str) -> str:
        declared = self.type(definition)
        return self.full(declared.underlying, definition) if declared.is_alias else definition

    def _package(self, name: str) -> GoPackage:
        path = go_path(name)
        inside = Path(path.removeprefix(_ITSELF)) if path.startswith(_ITSELF) else _STAGING / path
        return read_package(self._tree / inside)


def names_in(text: str) -> list[str]:
    """The definitions that a full Go type consists of."""
    return [found[0] for found in re.finditer(r"[\w-]+(?:\.[\w-]+)+", text)]


def by_package(definition: str) -> tuple[str, str]:
    """The order in which tables list definitions."""
    package, _, name = definition.rpartition(".")
    return package, name


def openapi_package(path: str) -> str:
    """`io.k8s.api.core.v1` for `k8s.io/api/core/v1`."""
    host, _, rest = path.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/")])


def go_path(package: str) -> str:
    """`k8s.io/api/core/v1` for `io.k8s.api.core.v1`."""
    top, name, *rest = package.split(".")
    return "/".join([f"{name}.{top}", *rest])

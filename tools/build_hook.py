"""Puts the OpenAPI definitions of the compatibility version into the package when it is built.

They come from the build requirement `kubernetes-validate`, which holds all releases and takes a hundred megabytes.
What is wanted of it is packed, definition by definition, so that no more is unpacked than is asked for. The result and
its licence stand beside the sources, so that an editable installation finds them too; git does not see them.
"""

from __future__ import annotations

import re
import zlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import msgspec
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE: Final = "kubernetes-validate"
FOLDER: Final = "src/fairlead/server/codec"
DATA: Final = "definitions.msgpack"
LICENCE: Final = "definitions.LICENSE"


class DefinitionsHook(BuildHookInterface[Any]):
    """Called by hatchling for a wheel and for an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        definitions, licence = read_source(compatibility_version(Path(self.root)))
        write(Path(self.root, FOLDER), definitions, licence)
        build_data["artifacts"] += [f"/{FOLDER}/{name}" for name in (DATA, LICENCE)]


def compatibility_version(root: Path) -> str:
    """What the package names as such; it cannot be imported before it is installed."""
    text = Path(root, "src/fairlead/__init__.py").read_text("utf-8")
    found = re.search(r'^COMPATIBILITY_VERSION = "([\d.]+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def read_source(release: str) -> tuple[dict[str, Any], str]:
    """The definitions of a Kubernetes release such as `1.36` by name, and the text of their licence."""
    try:
        files = distribution(SOURCE).files or []
    except PackageNotFoundError:
        raise SystemExit(
            f"Building Fairlead needs {SOURCE}, as pyproject.toml lists it under [build-system]: build with build"
            " isolation (pip's default), or install it into this environment first."
        ) from None
    document = next((file for file in files if file.match(f"*/v{release}.0-local/_definitions.json")), None)
    licence = next((file for file in files if file.name == "LICENSE"), None)
    if document is None or licence is None:
        raise SystemExit(
            f"{SOURCE} {distribution(SOURCE).version} has no definitions of Kubernetes {release}: name a version that"
            " has them in pyproject.toml, under [build-system]."
        )
    definitions: dict[str, Any] = msgspec.json.decode(Path(document.locate()).read_bytes())["$defs"]
    return definitions, Path(licence.locate()).read_text("utf-8")


def write(folder: Path, definitions: dict[str, Any], licence: str) -> None:
    """The same bytes for the same input, whenever and wherever they are written."""
    packed = {name: zlib.compress(msgspec.json.encode(definitions[name]), 9) for name in sorted(definitions)}
    for name, body in ((DATA, msgspec.msgpack.encode(packed)), (LICENCE, licence.encode())):
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_bytes(body)
        unfinished.replace(folder / name)

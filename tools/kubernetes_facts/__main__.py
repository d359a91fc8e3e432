"""Writes the tables of facts about built-in types: `python -m tools.kubernetes_facts TREE`.

TREE is the source tree of the Kubernetes release that fairlead.COMPATIBILITY_VERSION names. `git diff` then shows what
is new in that release.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from fairlead import COMPATIBILITY_VERSION
from tools.kubernetes_facts import facts, podspec, wire
from tools.kubernetes_facts.gosource import GoSourceError
from tools.kubernetes_facts.sources import Sources

_PACKAGE: Final = Path(__file__).parents[2] / "src" / "fairlead"
_OPENAPI: Final = Path("api", "openapi-spec", "swagger.json")


def write_tables(sources: Sources, definitions: Collection[str], release: str, package: Path) -> list[Path]:
    """All tables, written only when every one could be made."""
    rows = wire.wire_rows(sources, definitions)
    tables: list[tuple[Path, str, Iterable[str]]] = [
        (package / "server/codec/wire.txt", wire.HEADER, wire.wire_lines(rows)),
        (package / "server/openapi/facts.txt", facts.HEADER, facts.facts_lines(sources, rows)),
        (package / "kinds/podspec_internal.txt", podspec.HEADER, podspec.podspec_lines(sources)),
    ]
    texts = {path: header.format(release=release) + "\n".join(lines) + "\n" for path, header, lines in tables}
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return list(texts)


def read_definitions(path: Path) -> list[str]:
    """The names of the types that an OpenAPI document defines, be it Kubernetes' own or one of kubernetes-validate."""
    document = json.loads(path.read_bytes())
    return list(document.get("definitions") or document["$defs"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes_facts", description="Makes the tables of facts.")
    parser.add_argument("tree", type=Path, metavar="TREE", help="the sources of the Kubernetes release")
    parser.add_argument("--openapi", type=Path, help=f"the OpenAPI document that lists the types [TREE/{_OPENAPI}]")
    options = parser.parse_args(arguments)
    try:
        definitions = [*read_definitions(options.openapi or options.tree / _OPENAPI), *wire.BESIDE_OPENAPI]
        written = write_tables(Sources(options.tree), definitions, COMPATIBILITY_VERSION, _PACKAGE)
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")
    except GoSourceError as error:
        sys.exit(f"error: {error}")
    print(f"Kubernetes {COMPATIBILITY_VERSION}:", *written, "see what is new with `git diff`", sep="\n  ")


if __name__ == "__main__":
    main()

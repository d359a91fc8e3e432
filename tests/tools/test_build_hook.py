"""What the build puts into the package, and what is said where it could not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

import fairlead
from fairlead.server.codec import schemas
from tools import build_hook

DEFINITIONS = {"io.k8s.api.core.v1.Pod": {"type": "object"}, "io.k8s.api.apps.v1.Scale": {"description": "½"}}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the form of kubernetes-validate that knows Kubernetes 1.90 alone."""
    info = tmp_path / "kubernetes_validate-9.0.dist-info"
    document = tmp_path / "kubernetes_validate/kubernetes-json-schema/v1.90.0-local/_definitions.json"
    for path, text in (
        (info / "METADATA", "Metadata-Version: 2.1\nName: kubernetes-validate\nVersion: 9.0\n"),
        (info / "licenses/LICENSE", "A licence"),
        (info / "RECORD", f"{document.relative_to(tmp_path)},,\n{info.name}/licenses/LICENSE,,\n"),
        (document, json.dumps({"$defs": DEFINITIONS})),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_definitions_of_the_compatibility_version_are_packed_with_their_licence(
    source: Path, tmp_path: Path
) -> None:
    build_hook.write(tmp_path, *build_hook.read_source("1.90"))
    packed = msgspec.msgpack.decode((tmp_path / "definitions.msgpack").read_bytes(), type=dict[str, bytes])
    assert {name: json.loads(zlib.decompress(body)) for name, body in packed.items()} == DEFINITIONS
    assert (tmp_path / "definitions.LICENSE").read_text() == "A licence"


def test_a_release_that_the_source_does_not_have_is_named(source: Path) -> None:
    with pytest.raises(SystemExit, match=r"kubernetes-validate 9\.0 has no definitions of Kubernetes 1\.91: name a"):
        build_hook.read_source("1.91")


def test_a_build_without_the_source_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(SystemExit, match="Building Fairlead needs kubernetes-validate, as pyproject"):
        build_hook.read_source("1.36")


def test_the_version_to_pack_is_the_one_that_the_package_names() -> None:
    root = Path(build_hook.__file__).parents[1]
    assert build_hook.compatibility_version(root) == fairlead.COMPATIBILITY_VERSION


def test_what_is_installed_has_definitions_and_licence() -> None:
    assert schemas.schema_of("io.k8s.api.core.v1.PodSpec").field("containers") is not None
    assert "Apache License" in files("fairlead.server.codec").joinpath("definitions.LICENSE").read_text("utf-8")


def test_a_copy_without_definitions_says_how_they_are_made(tmp_path: Path) -> None:
    package = Path(fairlead.__file__).parent
    shutil.copytree(package, tmp_path / "fairlead", ignore=shutil.ignore_patterns("definitions.msgpack", "__pycache__"))
    found = subprocess.run(
        [sys.executable, "-m", "fairlead", "up", "--memory", "--port", "0", "--kubeconfig", tmp_path / "config"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 1
    assert found.stderr.startswith(
        f"Error: {tmp_path}/fairlead/server/codec/definitions.msgpack is not there: run `pip"
    )
    assert len(found.stderr.splitlines()) == 1

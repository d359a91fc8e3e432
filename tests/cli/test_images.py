"""`fairlead images`: what it prints, and how it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import main
from tests.agent.images.archives import Entry, docker_archive, layer, written

LAYER = layer(Entry("file", b"x" * 1_500_000))


def images(root: Path, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["images", command, "--root", str(root), *arguments])


def test_images_are_loaded_listed_aliased_and_removed(tmp_path: Path) -> None:
    archive = written(tmp_path / "app.tar", docker_archive({"app:v1": [LAYER], "app:v2": [LAYER]}))
    loaded = images(tmp_path, "load", str(archive))
    assert loaded.stdout.startswith("Loaded docker.io/library/app:v1, docker.io/library/app:v2 (")
    assert images(tmp_path, "alias", "old/app", "app:v1").exit_code == 0
    lines = [line.split() for line in images(tmp_path, "list").stdout.splitlines()]
    assert lines[0] == ["IMAGE", "ID", "SIZE"]
    assert lines[1][0::2] == ["docker.io/library/app:v1", "1.5"]
    assert lines[3] == ["docker.io/old/app:latest", "is", "docker.io/library/app:v1"]
    assert images(tmp_path, "rm", "app:v1", "app:v2", "old/app").exit_code == 0
    assert json.loads(images(tmp_path, "list", "-o", "json").stdout) == {"images": [], "aliases": {}}


def test_json_says_what_a_container_is_run_with(tmp_path: Path) -> None:
    archive = written(tmp_path / "app.tar", docker_archive({"app:v1": [LAYER]}, Cmd=["/app"], Env=["A=b"]))
    images(tmp_path, "load", str(archive))
    (image,) = json.loads(images(tmp_path, "list", "-o", "json").stdout)["images"]
    assert image["config"] == {"Cmd": ["/app"], "Env": ["A=b"]}
    assert image["sizeBytes"] == 1_500_000


def test_refusals_are_one_sentence(tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.tar", b"nothing" * 1000)
    refused = images(tmp_path, "load", str(bad))
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {bad}: the archive is damaged")
    assert images(tmp_path, "rm", "nginx").stderr == "Error: no such image: nginx\n"
    wrong = images(tmp_path, "rm", "Nginx:")
    assert (wrong.exit_code, "must be lowercase" in wrong.stderr) == (2, True)
    assert images(tmp_path, "load", str(bad), str(bad), "--name", "a").exit_code == 2
    assert images(tmp_path, "load", str(tmp_path), "--name", "a", "--env", "A").exit_code == 2


def test_a_runtime_that_is_not_containerd_takes_no_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ctr tells of CRI-O."""
    ctr = tmp_path / "ctr"
    ctr.write_text(
        "#!/bin/sh\necho 'ctr: unknown service containerd.services.leases.v1.Leases: not implemented' >&2; exit 1"
    )
    ctr.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    archive = written(tmp_path / "app.tar", docker_archive({"app:v1": [LAYER]}))
    refused = images(tmp_path, "load", str(archive), "--container-runtime-endpoint", "unix:///run/crio/crio.sock")
    assert refused.exit_code == 1
    assert "the container runtime at /run/crio/crio.sock is not containerd" in refused.stderr


def test_a_root_that_cannot_be_is_named(tmp_path: Path) -> None:
    refused = images(written(tmp_path / "file", b"") / "root", "alias", "old", "new")
    assert refused.exit_code == 1
    assert "Choose another place with --root" in refused.stderr

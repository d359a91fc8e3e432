"""What `fairlead up` does with what it has read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli import up
from fairlead.compose import Cluster, Settings, cluster

_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n"


class _EnoughError(Exception):
    """The cluster is ready."""


def test_an_import_is_forgotten_once_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was kept for as long as the cluster ran: 230 MB of 50,000 pods."""
    seen: list[tuple[int, int]] = []

    @asynccontextmanager
    async def watched(settings: Settings) -> AsyncIterator[Cluster]:
        before = len(settings.imported)
        async with cluster(settings) as running:
            assert running.count("configmaps")
            seen.append((before, len(settings.imported)))
            if before:
                raise _EnoughError
            yield running

    monkeypatch.setattr(up, "cluster", watched)
    dump = tmp_path / "dump.yaml"
    dump.write_text(_MAP)
    options = ["--memory", "--port", "0", "--components", "api", "--kubeconfig", str(tmp_path / "kubeconfig")]
    found = CliRunner().invoke(up.up, [*options, "--import", str(dump)])
    assert isinstance(found.exception, _EnoughError)
    assert seen == [(1, 0)]

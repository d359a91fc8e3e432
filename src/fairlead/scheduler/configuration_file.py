"""Reads a KubeSchedulerConfiguration from its file."""

from __future__ import annotations

from pathlib import Path

from fairlead.golang import yaml as goyaml
from fairlead.scheduler.configuration import Configuration, load


def read_configuration(file: Path) -> Configuration:
    """Raises ValueError, which names the file, if it is invalid."""
    try:
        document = next(goyaml.strict_documents(file.read_bytes()), None)
        if not isinstance(document, dict):
            raise ValueError("not a KubeSchedulerConfiguration")
        return load(document)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None

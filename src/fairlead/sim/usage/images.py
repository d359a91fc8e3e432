"""What images are known to use, and which images are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.sim.usage.measures import Measure

#: A profile for an image counts before this.
IMAGES: Final[Mapping[str, Mapping[Measure, str]]] = {"saadali/simmemleak": {Measure.MEMORY: "leak(10Mi/s)"}}


def repository(image: str) -> str:
    """The image without tag and digest, and without the name of the default registry."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    name = path + slash + last.partition(":")[0]
    return name.removeprefix("docker.io/").removeprefix("index.docker.io/").removeprefix("library/")

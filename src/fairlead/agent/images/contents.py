"""What the store takes in: an image's configuration and its layers, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fairlead.agent.images.tar import Readable


@dataclass(frozen=True, slots=True)
class LayerSource:
    """One layer as it was packed; `open` begins anew each time."""

    open: Callable[[], AbstractContextManager[Readable]]
    #: Of the packed layer; "" where nobody stated one.
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ImageContents:
    config: bytes
    layers: Sequence[LayerSource]
    tags: Sequence[str]
    #: `repository@digest`, by which it can be asked for as well.
    digests: Sequence[str] = ()
    #: Of its manifest, or of its configuration where it has none: what messages call it.
    digest: str = ""

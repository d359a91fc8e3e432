"""What the store takes in: an image's configuration and its layers, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import msgspec

from fairlead.agent.images.tar import Readable


class LayerSource(msgspec.Struct, frozen=True):
    """One layer as it was packed; `open` begins anew each time."""

    open: Callable[[], AbstractContextManager[Readable]]
    #: Of the packed layer; "" where nobody stated one.
    digest: str = ""


class ImageContents(msgspec.Struct, frozen=True):
    config: bytes
    layers: Sequence[LayerSource]
    tags: Sequence[str]
    #: `repository@digest`, by which it can be asked for as well.
    digests: Sequence[str] = ()
    #: Of its manifest, or of its configuration where it has none: what messages call it.
    digest: str = ""

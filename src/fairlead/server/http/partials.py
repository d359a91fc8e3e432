"""PartialObjectMetadata: an object's metadata alone, which is all that informers of metadata want."""

from __future__ import annotations

from typing import Final

from fairlead.api.encoded import Encoded, encode
from fairlead.api.objects import Obj
from fairlead.server.codec.protobuf_writer import message_type
from fairlead.server.http.negotiate import PARTIAL

#: The type of its message in every version of meta.k8s.io.
PARTIAL_TYPE: Final = message_type(PARTIAL, "meta.k8s.io/v1")


def partial(metadata: Obj, version: str) -> Obj:
    """As an object of that version of meta.k8s.io."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}


def encoded_partial(item: Encoded, version: str) -> bytes:
    return encode(partial(item.metadata(), version))

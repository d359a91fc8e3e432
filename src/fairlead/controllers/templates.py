"""Pod templates by content: two that say the same are one revision, whatever else their owners hold."""

from __future__ import annotations

import zlib

import msgspec

from fairlead.api.objects import Obj
from fairlead.runtime.rng import NAME_ALPHABET

#: The label (and the part of a name) that tells pods of one template from those of another.
HASH_LABEL = "pod-template-hash"

_encode = msgspec.json.Encoder(order="sorted").encode


def content_hash(content: object, collisions: int | None = None) -> str:
    """A short safe text that depends on the content alone; another one for every collision counted.

    Kubernetes hashes a dump of its Go structures, which nobody can repeat; only its alphabet and length matter.
    """
    salt = b"" if collisions is None else str(collisions).encode()
    return _safe(str(zlib.crc32(_encode(content) + salt)))


def _safe(text: str) -> str:
    """`rand.SafeEncodeString`: each byte becomes a letter that makes no words."""
    return "".join(NAME_ALPHABET[byte % len(NAME_ALPHABET)] for byte in text.encode())


def with_label(template: Obj, name: str, value: str) -> Obj:
    """The template with one more label."""
    meta = template.get("metadata", {})
    return template | {"metadata": meta | {"labels": meta.get("labels", {}) | {name: value}}}


def without_hash(template: Obj) -> Obj:
    """The template as its author wrote it."""
    meta = template.get("metadata", {})
    labels = {name: value for name, value in meta.get("labels", {}).items() if name != HASH_LABEL}
    return template | {"metadata": meta | {"labels": labels}}

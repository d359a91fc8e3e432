"""The keys under which the store holds objects: `/RESOURCE/NAMESPACE/NAME`, the namespace empty where there is none.

No part contains a slash, for no name that the API lets anybody have does.
"""

from __future__ import annotations


def key_of(qualified: str, namespace: str, name: str) -> str:
    """The key of an object; its resource is qualified by the group."""
    return f"/{qualified}/{namespace}/{name}"


def parts_of(key: str) -> tuple[str, str, str]:
    """The same three again."""
    _, qualified, namespace, name = key.split("/")
    return qualified, namespace, name


def kind_of(key: str) -> str:
    """The first of the three."""
    return key[1 : key.index("/", 1)]


def prefix_of(qualified: str) -> str:
    """How the keys of all objects of a resource begin."""
    return f"/{qualified}/"

"""The checksum that a kubelet writes into the files of its managers."""

from __future__ import annotations


def fnv1a(text: str) -> int:
    found = 0x811C9DC5
    for byte in text.encode():
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found

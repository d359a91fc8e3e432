"""What a real node makes of each setting of its KubeletConfiguration, so that nobody relies on one that does nothing.

`kubelet_settings.txt` has a row for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files

import msgspec

from fairlead.node.configuration.settings import SETTINGS, KubeletConfiguration, Setting


class Effect(StrEnum):
    WORKS = "works"
    #: It does, within a limit that the note tells.
    LIMITED = "limited"
    REFUSED = "refused"
    NOTHING = "nothing"


class Row(msgspec.Struct, frozen=True):
    name: str
    effect: Effect
    note: str = ""


@cache
def rows() -> Mapping[str, Row]:
    """By name in a file, or by flag, in the order of the table."""
    lines = files(__package__).joinpath("kubelet_settings.txt").read_text("utf-8").splitlines()
    found = (line.split(" | ") for line in lines if line and not line.startswith("#"))
    return {name: Row(name, Effect(effect), *note) for name, effect, *note in found}


def name_of(setting: Setting) -> str:
    return setting.name or f"--{setting.flag}"


def idle_settings(configuration: KubeletConfiguration) -> Iterator[str]:
    """What was said, is not the default, and does nothing."""
    for setting in SETTINGS:
        row = rows()[name_of(setting)]
        if row.effect is Effect.NOTHING and getattr(configuration, setting.attribute) != setting.default:
            flag = f" (--{setting.flag})" if setting.name and setting.flag else ""
            yield f"{row.name}{flag} does nothing on this node: {row.note}"

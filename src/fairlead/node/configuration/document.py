"""A KubeletConfiguration as `/configz` shows it: the names of its file, durations as text, nothing that is unset."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.golang.durations import format_seconds
from fairlead.node.configuration.settings import SETTINGS, KubeletConfiguration
from fairlead.node.configuration.value_types import DURATION

_EMPTY: Final[tuple[object, ...]] = (None, "", 0, 0.0, False, (), {}, [])


def document(configuration: KubeletConfiguration) -> Obj:
    """Go leaves out what is zero, but not a pointer to zero nor a duration."""
    shown: Obj = {}
    for setting in SETTINGS:
        value = getattr(configuration, setting.attribute)
        if not setting.name or value is None:
            continue
        is_duration = setting.type is DURATION
        if not (setting.is_pointer or is_duration) and value in _EMPTY:
            continue
        *above, last = setting.name.split(".")
        place = shown
        for name in above:
            place = place.setdefault(name, {})
        place[last] = format_seconds(value) if is_duration else value
    return shown

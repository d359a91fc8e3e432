"""What went over the interfaces of a network namespace, as the kernel shows it to a process that is in there."""

from __future__ import annotations

from io import FileIO
from typing import Final

from fairlead.node.stats.measurements import InterfaceMeasurements

#: The ends of others' networks, and what nothing leaves the machine by (isIgnoredDevice of cadvisor).
_IGNORED: Final = (b"lo", b"veth", b"docker", b"nerdctl")
#: A container that may make interfaces makes thousands: so many bytes are read, and so many interfaces shown.
_MOST_BYTES: Final = 1 << 16
_MOST_INTERFACES: Final = 16
#: Of a line: eight figures of what is received, eight of what is sent.
_FIGURES: Final = 16


def interfaces(pid: int | None = None) -> tuple[InterfaceMeasurements, ...] | None:
    """Those that the process sees; None: we ourselves, and None if it has gone."""
    try:
        with FileIO(f"/proc/{pid or 'self'}/net/dev") as opened:
            return parsed(opened.read(_MOST_BYTES) or b"")
    except OSError:
        return None


def parsed(text: bytes) -> tuple[InterfaceMeasurements, ...]:
    found: dict[str, InterfaceMeasurements] = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.strip().rpartition(b":")
        figures = rest.split()
        if not colon or len(figures) < _FIGURES or name.startswith(_IGNORED):
            continue
        if len(found) == _MOST_INTERFACES:
            break
        shown = name.decode(errors="backslashreplace")
        received, sent = map(int, figures[:4]), map(int, figures[8:12])
        found[shown] = InterfaceMeasurements(shown, *received, *sent)
    return tuple(found.values())

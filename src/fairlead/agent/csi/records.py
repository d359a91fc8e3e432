"""What drivers have mounted, as it is written down beside it: whoever starts next can have it taken back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agent import linux
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.api.attaching import unique_name
from fairlead.api.claims import CsiSource
from fairlead.runtime.whole_files import replace_durably

_RECORD: Final = "vol_data.json"
#: How long volumes live, as CSIDrivers name it: as a claim does, or as the pod that has them.
PERSISTENT: Final = "Persistent"
EPHEMERAL: Final = "Ephemeral"

log = logging.getLogger(__name__)


class Volume(msgspec.Struct, frozen=True):
    driver: str
    handle: str
    lifecycle: str = PERSISTENT

    @property
    def source(self) -> CsiSource:
        return CsiSource(driver=self.driver, volume_handle=self.handle)

    @property
    def unique_name(self) -> str:
        return unique_name(self.source)


def write_down(folder: Path, volume: Volume, target: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    if target is not None:
        target.mkdir(exist_ok=True, mode=0o750)
    said = {"driverName": volume.driver, "volumeHandle": volume.handle, "volumeLifecycleMode": volume.lifecycle}
    replace_durably(folder / _RECORD, json.dumps(said).encode())  # half of it would tell nobody what to take back


def is_written_down(folder: Path) -> bool:
    return (folder / _RECORD).exists()


def strike_out(folder: Path, target: Path) -> None:
    """What is mounted there yet would lose what is in it: that is left alone."""
    if linux.mount_points(target):
        raise RuntimeFailure(f"{target} is still mounted")
    if target.is_dir() and not target.is_symlink():
        target.rmdir()
    else:  # where a device was
        target.unlink(missing_ok=True)
    for record in folder.glob(f"{_RECORD}*"):  # also one that was not finished
        record.unlink()
    folder.rmdir()


def remove_rest(folder: Path) -> None:
    """Who was killed before he had written down what he began, or after he had struck that out, leaves its folder."""
    if folder.is_dir():
        for left in folder.iterdir():
            strike_out(left, left / "mount")
        folder.rmdir()


def records(folder: Path, depth: str) -> Iterator[tuple[Path, Volume]]:
    """With the folder of each. So deep and no deeper: what is mounted there is not ours."""
    for path in folder.glob(f"{depth}/{_RECORD}"):
        try:
            said: Any = json.loads(path.read_text())
            lifecycle = said.get("volumeLifecycleMode", PERSISTENT)
            yield path.parent, Volume(said["driverName"], said["volumeHandle"], lifecycle)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:  # cut off by a machine that fell
            log.warning("%s says nothing: %s", path, problem)

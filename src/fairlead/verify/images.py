"""What the containers of a workload are made of: the player with a plan, or an image of this machine's store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairlead.agent.images.credentials import Credential
from fairlead.agent.images_seam import Image, ListedImage, PullFailure
from fairlead.agent.stored_images import StoredImages
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.verify.plan import FOLDER, Played

_REPOSITORY: Final = "verify.fairlead.dev/played"


@dataclass(frozen=True)
class PlayerConfig:
    """Every image of a player is told the same."""

    entrypoint: Sequence[str] | None = ("/player", "/plan")
    cmd: Sequence[str] | None = None
    env: Sequence[str] | None = None
    user: str = ""
    working_dir: str = "/"
    stop_signal: str = ""


@dataclass(frozen=True)
class PlayerImage:
    id: str
    layers: Sequence[Path]
    size_bytes: int = 0
    config: PlayerConfig = PlayerConfig()


@dataclass
class PlayedImages:
    """`stored` has those of ordinary containers."""

    folder: Path
    stored: StoredImages
    _made: dict[str, PlayerImage] = field(default_factory=dict)
    _failing: dict[str, str] = field(default_factory=dict)

    def give(self, player: Path) -> None:
        """The program that plays; read once, so that its pages are nobody's in there."""
        base = self.folder / "player"
        (base / FOLDER.strip("/")).mkdir(parents=True)
        (base / FOLDER.strip("/")).chmod(0o1777)
        shutil.copy2(player, base / "player")
        (base / "player").chmod(0o755)
        (base / "player").read_bytes()

    def make(self, played: Played, origin: float) -> str:
        """The name of an image that plays that."""
        number = len(self._made) + len(self._failing)
        name, layer = f"{_REPOSITORY}/{number}:plan", self.folder / str(number)
        layer.mkdir()
        (layer / "plan").write_text(played.text(origin))
        if played.pull_error:
            self._failing[name] = played.pull_error
        else:
            self._made[name] = PlayerImage(f"sha256:{number:064x}", [self.folder / "player", layer])
        return name

    def find(self, reference: str) -> Image | None:
        if reference in self._failing:
            return None
        return self._made.get(reference) or self.stored.find(reference)

    def source_of(self, reference: str) -> str:
        return self.stored.source_of(reference)

    async def pull(self, reference: str, credential: Credential | None) -> Image:
        if reference in self._failing:
            raise PullFailure(self._failing[reference])
        return self._made.get(reference) or await self.stored.pull(reference, credential)

    def disk_usage(self) -> DiskUsage:
        return DiskUsage(0, 0)

    def ids(self) -> Sequence[str]:
        return ()

    def listed(self) -> Sequence[ListedImage]:
        return ()

    async def remove(self, id_: str) -> None:
        """What is in the store belongs to others."""

"""Which images this node has pulled, and who has shown that they may have them, over restarts of the agent.

An image that is here is not everybody's: who names it without a pull secret that it was once pulled with has to pull it
as well (KubeletEnsureSecretPulledImages). A pull that was begun counts as one, whatever became of it.
Source: pkg/kubelet/images/pullmanager (1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.agent.images.errors import InvalidReference
from fairlead.agent.images.references import parse
from fairlead.node.configuration.settings import KubeletConfiguration

#: Of one image, and of one name of it: who is not remembered any more has to pull it again.
_MOST_NAMES: Final = 100
_MOST_SECRETS: Final = 100
_PULLED: Final = "*.json"
_BEGUN: Final = "*.begun"


class HashedSecret(msgspec.Struct, frozen=True):
    """A pull secret, and what of it a registry has taken: as a digest."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    digest: str = ""

    def is_as_good_as(self, other: HashedSecret) -> bool:
        is_same = (self.namespace, self.name, self.uid) == (other.namespace, other.name, other.uid)
        return is_same or self.digest == other.digest


class _Access(msgspec.Struct, frozen=True):
    """Who may have an image by one name."""

    is_for_all: bool = False
    secrets: tuple[HashedSecret, ...] = ()


class _Pulled(msgspec.Struct, frozen=True):
    image: str = ""
    #: By name of the image, without tag and digest.
    names: dict[str, _Access] = {}


class PullRecords:
    def __init__(self, folder: Path, policy: str = "NeverVerify", exempt: Iterable[str] = ()) -> None:
        """`policy` and `exempt` are `imagePullCredentialsVerificationPolicy` and its list."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._policy, self._exempt = folder, policy, tuple(exempt)
        self._pulled = {record.image: record for record in map(_read, folder.glob(_PULLED))}
        self._begun = {path.stem for path in folder.glob(_BEGUN)}

    @classmethod
    def of(cls, folder: Path, config: KubeletConfiguration) -> PullRecords:
        policy = config.image_pull_credentials_verification_policy or "NeverVerify"
        return cls(folder, policy, config.preloaded_images_verification_allowlist)

    def is_open(self, reference: str, image: str) -> bool:
        """Whether every pod here may have that image by that name."""
        if not self._is_asked_for(reference, image):
            return True
        return self._access(reference, image).is_for_all

    def is_open_to(self, reference: str, image: str, shown: Sequence[HashedSecret]) -> bool:
        """Whether who shows this may have it; what is as good as before is remembered, too."""
        if self.is_open(reference, image):
            return True
        access = self._access(reference, image)
        good = [each for each in shown if any(map(each.is_as_good_as, access.secrets))]
        if good and len(access.secrets) < _MOST_SECRETS:
            self._write(reference, image, good[0])
        return bool(good)

    def begin(self, reference: str) -> None:
        key = _key(reference)
        (self._folder / f"{key}.begun").touch()
        self._begun.add(key)

    def end(self, reference: str, image: str = "", shown: HashedSecret | None = None) -> None:
        """It was pulled, by that secret or by nobody's; without an image it was not."""
        if image:
            self._write(reference, image, shown)
        key = _key(reference)
        (self._folder / f"{key}.begun").unlink(missing_ok=True)
        self._begun.discard(key)

    def forget(self, kept: Collection[str]) -> None:
        """All but these images are gone."""
        for image in self._pulled.keys() - set(kept):
            del self._pulled[image]
            self._path(image).unlink(missing_ok=True)

    def _is_asked_for(self, reference: str, image: str) -> bool:
        if self._policy == "NeverVerifyPreloadedImages":
            return image in self._pulled or _key(reference) in self._begun
        if self._policy == "NeverVerifyAllowlistedImages":
            name = _name(reference)
            return not any(name.startswith(each[:-1]) if each.endswith("/*") else name == each for each in self._exempt)
        return self._policy == "AlwaysVerify"

    def _access(self, reference: str, image: str) -> _Access:
        pulled = self._pulled.get(image)
        return _Access() if pulled is None else pulled.names.get(_name(reference), _Access())

    def _write(self, reference: str, image: str, shown: HashedSecret | None) -> None:
        access = self._access(reference, image)
        if access.is_for_all or (shown is not None and shown in access.secrets):
            return
        if shown is None:
            access = _Access(is_for_all=True)
        else:
            others = [each for each in access.secrets if (each.namespace, each.name) != (shown.namespace, shown.name)]
            access = _Access(secrets=(*others, shown)[-_MOST_SECRETS:])
        before = self._pulled.get(image) or _Pulled(image)
        names = {**before.names, _name(reference): access}
        record = self._pulled[image] = replace(before, names=dict(list(names.items())[-_MOST_NAMES:]))
        path = self._path(image)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.rename(path)

    def _path(self, image: str) -> Path:
        return self._folder / f"{_key(image)}.json"


def _read(path: Path) -> _Pulled:
    """One that cannot be read is of no image, so nobody may have what is not known any more."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Pulled)
    except (OSError, msgspec.DecodeError):
        return _Pulled()


def _key(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _name(reference: str) -> str:
    try:
        return parse(reference).name
    except InvalidReference:  # an id
        return reference

"""What a driver is told of a volume that a pod gets: how it is mounted, for whom, and by whose right.

Source: pkg/volume/csi/csi_mounter.go (1.36).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fairlead.agent.csi.records import EPHEMERAL, PERSISTENT
from fairlead.agent.pods.sources import Sources
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.attachments import CSIDriver
from fairlead.api.meta import ObjectMeta
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote

if TYPE_CHECKING:
    from fairlead.agent.csi.messages import VolumeCapability

#: By the access modes of Kubernetes; the second where a driver tells one writer on a node from several.
_MODES: Final = {
    "ReadWriteOnce": (1, 7),
    "ReadWriteOncePod": (1, 6),
    "ReadOnlyMany": (3, 3),
    "ReadWriteMany": (5, 5),
}
_ABOUT: Final = "csi.storage.k8s.io"
_TOKENS: Final = f"{_ABOUT}/serviceAccount.tokens"


class Told(NamedTuple):
    """Of the pod, among the attributes of the volume and among its secrets."""

    context: Mapping[str, str]
    secrets: Mapping[str, str]


def check_lifecycle(about: CSIDriver | None, driver: str, lifecycle: str) -> None:
    """VolumeProblem where the driver has no volumes that live as long as that."""
    if about is None and lifecycle == PERSISTENT:
        return
    mode = f"volume mode {go_quote(lifecycle)} not supported by driver {driver}"
    if about is None:
        raise VolumeProblem(f"{mode} (no CSIDriver object)")
    known = about.spec.volume_lifecycle_modes or (PERSISTENT,)
    if lifecycle not in known:
        raise VolumeProblem(f"{mode} (only supports [{' '.join(map(go_quote, known))}])")


def inline_spec(manifest: Obj, source: Obj) -> Obj:
    """What a PersistentVolume would say of a volume that a pod has by itself."""
    spec = dict(source)
    if (secret := source.get("nodePublishSecretRef")) is not None:
        spec["nodePublishSecretRef"] = {"name": secret["name"], "namespace": manifest["metadata"]["namespace"]}
    return {"csi": spec, "accessModes": ["ReadWriteOnce"]}


def is_device(spec: Obj) -> bool:
    """Whether a PersistentVolume has no file system."""
    return bool(spec.get("volumeMode") == "Block")


def inline_handle(uid: str, name: str) -> str:
    return f"csi-{hashlib.sha256(f'{uid}{name}'.encode()).hexdigest()}"


def capability(can: frozenset[int], spec: Obj, manifest: Obj) -> VolumeCapability:
    """How a volume is to be mounted for the pod; `can`: what the driver can do."""
    from fairlead.agent.csi.messages import (
        MOUNT_GROUP,
        SINGLE_NODE_MULTI_WRITER,
        AccessMode,
        BlockVolume,
        MountVolume,
        VolumeCapability,
    )

    modes: Sequence[str] = spec.get("accessModes") or ["ReadWriteOnce"]
    access = AccessMode(mode=_MODES.get(modes[0], (1, 7))[SINGLE_NODE_MULTI_WRITER in can])
    if is_device(spec):
        return VolumeCapability(block=BlockVolume(), access_mode=access)
    group = (manifest["spec"].get("securityContext") or {}).get("fsGroup")
    mount = MountVolume(
        fs_type=spec["csi"].get("fsType") or "",
        mount_flags=list(spec.get("mountOptions") or ()),
        volume_mount_group=str(group) if group is not None and MOUNT_GROUP in can else "",
    )
    return VolumeCapability(mount=mount, access_mode=access)


def takes_owner(about: CSIDriver | None, spec: Obj, can: frozenset[int]) -> bool:
    """By the policy of the driver: always, never, or a volume with a file system that one node writes to. A driver that
    can do it by itself has done so.
    """
    from fairlead.agent.csi.messages import MOUNT_GROUP

    if MOUNT_GROUP in can:
        return False
    policy = about.spec.fs_group_policy if about is not None else ""
    if policy in ("File", "None"):
        return policy == "File"
    return bool(spec["csi"].get("fsType")) and "ReadWriteOnce" in (spec.get("accessModes") or ())


async def told_of_pod(about: CSIDriver | None, manifest: Obj, lifecycle: str, sources: Sources) -> Told:
    """As far as the driver wants to know."""
    if about is None:
        return Told({}, {})
    context = _about_pod(manifest, lifecycle) if about.spec.pod_info_on_mount else {}
    tokens = await _tokens(about, manifest, sources)
    if about.spec.service_account_token_in_secrets:
        return Told(context, tokens)
    return Told(context | tokens, {})


def _about_pod(manifest: Obj, lifecycle: str) -> dict[str, str]:
    meta = manifest["metadata"]
    return {
        f"{_ABOUT}/pod.name": meta["name"],
        f"{_ABOUT}/pod.namespace": meta["namespace"],
        f"{_ABOUT}/pod.uid": meta["uid"],
        f"{_ABOUT}/serviceAccount.name": _account(manifest),
        f"{_ABOUT}/ephemeral": str(lifecycle == EPHEMERAL).lower(),
    }


async def _tokens(about: CSIDriver, manifest: Obj, sources: Sources) -> dict[str, str]:
    """Of the pod's service account, by audience."""
    if not about.spec.token_requests:
        return {}
    meta, found = msgspec.convert(manifest["metadata"], ObjectMeta), {}
    for wanted in about.spec.token_requests:
        projection = {"audience": wanted.audience, "expirationSeconds": wanted.expiration_seconds}
        token = await sources.token(meta, _account(manifest), projection)
        found[wanted.audience] = {"token": token.text, "expirationTimestamp": token.expires}
    return {_TOKENS: json.dumps(found, sort_keys=True, separators=(",", ":"))}


def _account(manifest: Obj) -> str:
    return str(manifest["spec"].get("serviceAccountName") or "default")

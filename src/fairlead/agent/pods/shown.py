"""What the status of a container tells of its run besides: who it runs as, and how its volumes are mounted.

Source: convertToAPIContainerStatuses of pkg/kubelet.
"""

from __future__ import annotations

from fairlead.agent.runtimes.base import RunsAs
from fairlead.api.objects import Obj


def shown_of(container: Obj, runs_as: RunsAs | None, *, has_recursive: bool) -> Obj:
    """`has_recursive`: whether what is mounted below a volume can be read-only, too."""
    shown: Obj = {}
    if runs_as is not None:
        groups = list(runs_as.groups)
        shown["user"] = {"linux": {"uid": runs_as.uid, "gid": runs_as.gid, "supplementalGroups": groups}}
    if mounts := container.get("volumeMounts"):
        shown["volumeMounts"] = [_mount(mount, has_recursive=has_recursive) for mount in mounts]
    return shown


def _mount(mount: Obj, *, has_recursive: bool) -> Obj:
    shown: Obj = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if not mount.get("readOnly"):
        return shown
    is_below = has_recursive and (mount.get("recursiveReadOnly") or "Disabled") != "Disabled"
    return shown | {"readOnly": True, "recursiveReadOnly": "Enabled" if is_below else "Disabled"}

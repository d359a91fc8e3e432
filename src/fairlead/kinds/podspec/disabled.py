"""Fields of features that are off in 1.36: they count as not sent, and nobody is told.

What a pod has it keeps; a template, which may change, does not. Source: DropDisabledPodFields in pkg/api/pod/util.go;
the gates are ContainerStopSignals, GenericWorkload, ClusterTrustBundleProjection and PodCertificateRequest.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.objects import Obj
from fairlead.kinds.podspec.visiting import each_container

_PROJECTIONS = ("clusterTrustBundle", "podCertificate")
_NEW: Obj = {}


def drop_disabled(spec: Obj, old: Obj = _NEW) -> None:
    """Take from a specification, in place, what the one that it replaces does not use."""
    if "schedulingGroup" in spec and "schedulingGroup" not in old:
        del spec["schedulingGroup"]
    for container in each_container(spec):
        if _has_stop_signal(container) and not any(map(_has_stop_signal, each_container(old))):
            _drop_stop_signal(container)
    for source in _projections(spec):
        for kind in _PROJECTIONS:
            if kind in source and not any(kind in old_source for old_source in _projections(old)):
                del source[kind]


def _has_stop_signal(container: Obj) -> bool:
    return "lifecycle" in container and "stopSignal" in container["lifecycle"]


def _drop_stop_signal(container: Obj) -> None:
    del container["lifecycle"]["stopSignal"]
    if not container["lifecycle"]:
        del container["lifecycle"]


def _projections(spec: Obj) -> Iterator[Obj]:
    for volume in spec.get("volumes") or ():
        if "projected" in volume:
            yield from volume["projected"].get("sources") or ()

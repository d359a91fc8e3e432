"""Where containers see volumes: as directories (mounts) or as raw devices."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.paths import climbs, validate_descending_path
from fairlead.kinds.podspec.scope import PodScope

_PROPAGATIONS = frozenset({"Bidirectional", "HostToContainer", "None"})
_RECURSIVE_READ_ONLY = frozenset({"Disabled", "IfPossible", "Enabled"})


def validate_mounts(container: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    mounts = container.get("volumeMounts") or ()
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    places: set[str] = set()
    for i, mount in enumerate(mounts):
        here = f"{path}[{i}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.required(f"{here}.name")
        if name not in scope.volumes:
            errors.not_found(f"{here}.name", name)
        if not place:
            errors.required(f"{here}.mountPath")
        if place in places:
            errors.invalid(f"{here}.mountPath", place, "must be unique")
        places.add(place)
        if name in devices:
            errors.invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if place in devices.values():
            errors.invalid(f"{here}.mountPath", place, "must not already exist as a path in volumeDevices")
        _validate_options(mount, container, path, here, errors)


def _validate_options(mount: Obj, container: Obj, path: str, here: str, errors: Errors) -> None:
    """Sub-paths, propagation and read-only; upstream reports several of them without the index of the mount."""
    if sub_path := mount.get("subPath"):
        validate_descending_path(sub_path, f"{path}.subPath", errors)
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            errors.invalid(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        validate_descending_path(expression, f"{path}.subPathExpr", errors)
    if (propagation := mount.get("mountPropagation")) is not None:
        _validate_propagation(propagation, container, f"{path}.mountPropagation", errors)
    if (mode := mount.get("recursiveReadOnly")) is not None:
        _validate_recursive_read_only(mode, mount, f"{path}.recursiveReadOnly", errors)


def _validate_propagation(propagation: str, container: Obj, path: str, errors: Errors) -> None:
    if propagation not in _PROPAGATIONS:
        errors.not_supported(path, propagation, _PROPAGATIONS)
    is_privileged = (container.get("securityContext") or {}).get("privileged", False)
    if propagation == "Bidirectional" and not is_privileged:
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _validate_recursive_read_only(mode: str, mount: Obj, path: str, errors: Errors) -> None:
    if mode not in _RECURSIVE_READ_ONLY:
        errors.not_supported(path, mode, _RECURSIVE_READ_ONLY)
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            errors.forbidden(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            errors.forbidden(path, "may only be specified when mountPropagation is None or not specified")


def validate_devices(container: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts") or ()}
    names: set[str] = set()
    places: set[str] = set()
    for i, device in enumerate(container.get("volumeDevices") or ()):
        here = f"{path}[{i}]"
        name, place = device.get("name", ""), device.get("devicePath", "")
        _validate_device_name(name, here, names, scope, errors)
        if not place:
            errors.required(f"{here}.devicePath")
        if place in places:
            errors.invalid(f"{here}.devicePath", place, "must be unique")
        if climbs(place):
            errors.invalid(f"{here}.devicePath", place, "can not contain backsteps ('..')")
        else:
            places.add(place)
        if name in mounts:
            errors.invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if place in mounts.values():
            errors.invalid(f"{here}.devicePath", place, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)


def _validate_device_name(name: str, path: str, names: set[str], scope: PodScope, errors: Errors) -> None:
    volume = scope.volumes.get(name)
    if not name:
        errors.required(f"{path}.name")
    if name in names:
        errors.invalid(f"{path}.name", name, "must be unique")
    if volume is None:
        errors.not_found(f"{path}.name", name)
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        errors.invalid(
            f"{path}.name",
            name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )

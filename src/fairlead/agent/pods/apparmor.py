"""Which AppArmor profile a container has, and why a node refuses a pod because of it.

Sources: pkg/security/apparmor, pkg/kubelet/lifecycle/handlers.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlead.agent.runtimes.base import AppArmorProfile
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.podspec.annotations import APPARMOR
from fairlead.kinds.podspec.creation import apparmor_profile_of
from fairlead.kinds.podspec.visiting import each_container
from fairlead.node.admission import Refusal

_FILES: Final = Path("/sys/kernel/security/apparmor")
_ENABLED: Final = Path("/sys/module/apparmor/parameters/enabled")
_UNCONFINED: Final = "Unconfined"


def is_enabled() -> bool:
    """Whether the kernel of this machine has AppArmor, and uses it."""
    try:
        return _FILES.exists() and _ENABLED.read_text().startswith("Y")
    except OSError:
        return False


def profile_of(manifest: Obj, container: Obj) -> AppArmorProfile | None:
    """None where nothing is said. A static pod may say it as an annotation still; of others those became fields."""
    own = (container.get("securityContext") or {}).get("appArmorProfile")
    annotation = _annotations(manifest).get(APPARMOR + container["name"])
    found: Obj | None = (
        own
        or (apparmor_profile_of(annotation) if annotation is not None else None)
        or (manifest["spec"].get("securityContext") or {}).get("appArmorProfile")
    )
    return AppArmorProfile(found["type"], found.get("localhostProfile") or "") if found else None


def apparmor_refusal(manifest: Obj, *, is_enabled: bool) -> Refusal | None:
    """Why the pod cannot be confined as it asks to be."""
    problem = next(_invalid(manifest), "") if is_enabled else "AppArmor is not enabled on the host"
    if not problem or not _wants_confinement(manifest):
        return None
    return Refusal("AppArmor", f"Cannot enforce AppArmor: {problem}")


def _wants_confinement(manifest: Obj) -> bool:
    """Whether anything says so, be it used or not."""
    spec, annotations = manifest["spec"], _annotations(manifest)
    contexts = [spec.get("securityContext"), *(each.get("securityContext") for each in each_container(spec))]
    profiles = [context["appArmorProfile"] for context in contexts if (context or {}).get("appArmorProfile")]
    said = [value for key, value in annotations.items() if key.startswith(APPARMOR)]
    return any(profile["type"] != _UNCONFINED for profile in profiles) or any(text != "unconfined" for text in said)


def _invalid(manifest: Obj) -> Iterator[str]:
    """Of fields the API server makes sure."""
    for key, value in _annotations(manifest).items():
        if key.startswith(APPARMOR) and apparmor_profile_of(value) is None:
            yield f"invalid AppArmor profile name: {go_quote(value)}"


def _annotations(manifest: Obj) -> Obj:
    found: Obj = manifest["metadata"].get("annotations") or {}
    return found

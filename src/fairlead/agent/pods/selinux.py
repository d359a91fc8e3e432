"""Labels of SELinux, which this agent sets none of.

Without SELinux in the kernel no runtime sets any either: a pod that names labels runs there as if it named none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairlead.agent.pods.unsupported import UNSUPPORTED
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.visiting import each_with_path
from fairlead.node.admission import Refusal

_FILES: Final = Path("/sys/fs/selinux/enforce")
_FIELDS: Final = ("seLinuxOptions", "seLinuxChangePolicy")


def is_enabled() -> bool:
    """Whether the kernel of this machine has SELinux, and uses it."""
    return _FILES.exists()


def selinux_refusal(manifest: Obj, *, is_enabled: bool) -> Refusal | None:
    """Why the pod cannot have the labels that it names."""
    spec = manifest["spec"]
    for owner, path in ((spec, "spec"), *each_with_path(spec, "spec")):
        context = owner.get("securityContext") or {}
        if is_enabled and (named := next((name for name in _FIELDS if context.get(name)), "")):
            return Refusal(UNSUPPORTED, f"{path}.securityContext.{named} is not supported by this node")
    return None

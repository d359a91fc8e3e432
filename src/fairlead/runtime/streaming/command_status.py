"""How a command ended, as the fourth version of the protocol tells it: a Status with the exit code among its causes.

Source: kubelet `cri-streaming/pkg/streaming/remotecommand/exec.go` (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

NON_ZERO: Final = "NonZeroExitCode"
EXIT_CODE: Final = "ExitCode"


def ended(exit_code: int) -> Obj:
    """The command ran to its end."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": NON_ZERO,
        "details": {"causes": [{"reason": EXIT_CODE, "message": str(exit_code)}]},
    }


def failed(message: str) -> Obj:
    """It could not be run, or not to its end."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }

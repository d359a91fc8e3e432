"""Whether a container that ended is started again (KEP-5307, KEP-5532).

The first of its rules that fits decides, else its own policy, else that of the pod. Source: pkg/api/v1/pod/util.go.
"""

from __future__ import annotations

from fairlead.api.objects import Obj

_RESTARTING = ("Restart", "RestartAllContainers")


def may_restart_all(spec: Obj) -> bool:
    """Whether some container can make all others start again, whatever their policies."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def should_restart(container: Obj, spec: Obj, exit_code: int) -> bool:
    policy = container.get("restartPolicy")
    if policy is not None and _action(container, exit_code) in _RESTARTING:
        return True
    return _does_restart(policy or spec.get("restartPolicy", ""), exit_code)


def _does_restart(policy: str, exit_code: int) -> bool:
    return exit_code != 0 if policy == "OnFailure" else policy != "Never"


def _action(container: Obj, exit_code: int) -> str:
    """What the first rule that fits says; nothing if none fits."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_listed = exit_code in (codes.get("values") or ())
        if (codes.get("operator") == "In" and is_listed) or (codes.get("operator") == "NotIn" and not is_listed):
            action: str = rule.get("action", "")
            return action
    return ""

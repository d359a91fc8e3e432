"""The quality of service that follows from requests and limits (SC-26)."""

from __future__ import annotations

import pytest
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal

from fairlead.api.objects import Obj

SMALL, LARGE = {"cpu": "10m", "memory": "1Gi"}, {"cpu": "100m", "memory": "100Mi"}
ZERO = {"cpu": "0", "memory": "0"}

FOO_AND_BAR_WITH_LIMITS = pod("p", container("foo", limits=SMALL), container("bar", limits=LARGE))
CASES = {
    "limits of everything": ("Guaranteed", FOO_AND_BAR_WITH_LIMITS),
    "requests equal to limits": ("Guaranteed", pod("p", container(requests=SMALL, limits=SMALL))),
    "nothing at all": ("BestEffort", pod("p", container("foo"), container("bar"))),
    "one container with, one without": (
        "Burstable",
        pod("p", container("foo", requests={"cpu": "5m", "memory": "1Gi"}, limits=SMALL), container("bar")),
    ),
    "cpu alone": ("Burstable", pod("p", container(requests={"cpu": "1"}, limits={"cpu": "1"}))),
    "a limit of memory alone": ("Burstable", pod("p", container(limits={"memory": "1Gi"}))),
    "an init container without": (
        "Burstable",
        pod("p", container(limits=SMALL), initContainers=[container("first")]),
    ),
    "zero counts as nothing": ("BestEffort", pod("p", container(requests=ZERO, limits=ZERO))),
    "storage does not count": ("BestEffort", pod("p", container(requests={"ephemeral-storage": "1Gi"}))),
    "resources of the pod as a whole": (
        "Guaranteed",
        pod("p", container("foo"), container("bar"), resources={"requests": SMALL, "limits": SMALL}),
    ),
}


@pytest.mark.parametrize(("expected", "manifest"), CASES.values(), ids=CASES)
def test_the_class_follows_from_requests_and_limits(terminal: Terminal, expected: str, manifest: str) -> None:
    """SC-26, S0-105, S0-116 to S0-121, S0-123."""
    terminal.output("kubectl create -f -", manifest)
    terminal.prints("kubectl get pod p -o jsonpath='{.status.qosClass}'", expected)
    terminal.prints("kubectl describe pod p | grep 'QoS Class'", f"QoS Class:  {expected}")


def test_nobody_sets_the_class_by_hand(terminal: Terminal) -> None:
    """SC-26, S0-117."""
    terminal.output("kubectl create -f -", FOO_AND_BAR_WITH_LIMITS)
    terminal.output("kubectl wait pod/p --for=condition=Ready --timeout=20s")
    claim: Obj | str = '{"status":{"qosClass":"BestEffort"}}'
    terminal.prints(f"kubectl patch pod p -p '{claim}'", "pod/p patched (no change)")
    terminal.refuses(
        f"kubectl patch pod p --subresource=status -p '{claim}'",
        'The Pod "p" is invalid: status.qosClass: Invalid value: "BestEffort": field is immutable',
    )
    terminal.prints("kubectl get pod p -o jsonpath='{.status.qosClass}'", "Guaranteed")

"""The quality of service that follows from requests and limits (SC-26)."""

from __future__ import annotations

from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal

SMALL, LARGE = {"cpu": "10m", "memory": "1Gi"}, {"cpu": "100m", "memory": "100Mi"}
ZERO = {"cpu": "0", "memory": "0"}

FOO_AND_BAR_WITH_LIMITS = (container("foo", limits=SMALL), container("bar", limits=LARGE))
#: Name of the pod -> its class, and the pod.
CASES = {
    "limits-of-everything": ("Guaranteed", pod("limits-of-everything", *FOO_AND_BAR_WITH_LIMITS)),
    "requests-are-limits": ("Guaranteed", pod("requests-are-limits", container(requests=SMALL, limits=SMALL))),
    "nothing": ("BestEffort", pod("nothing", container("foo"), container("bar"))),
    "one-with-one-without": (
        "Burstable",
        pod(
            "one-with-one-without",
            container("foo", requests={"cpu": "5m", "memory": "1Gi"}, limits=SMALL),
            container("bar"),
        ),
    ),
    "cpu-alone": ("Burstable", pod("cpu-alone", container(requests={"cpu": "1"}, limits={"cpu": "1"}))),
    "memory-limit-alone": ("Burstable", pod("memory-limit-alone", container(limits={"memory": "1Gi"}))),
    "init-container-without": (
        "Burstable",
        pod("init-container-without", container(limits=SMALL), initContainers=[container("first")]),
    ),
    "zero-is-nothing": ("BestEffort", pod("zero-is-nothing", container(requests=ZERO, limits=ZERO))),
    "storage-does-not-count": (
        "BestEffort",
        pod("storage-does-not-count", container(requests={"ephemeral-storage": "1Gi"})),
    ),
    "of-the-pod-as-a-whole": (
        "Guaranteed",
        pod(
            "of-the-pod-as-a-whole",
            container("foo"),
            container("bar"),
            resources={"requests": SMALL, "limits": SMALL},
        ),
    ),
}


def test_the_class_follows_from_requests_and_limits(terminal: Terminal) -> None:
    """SC-26, S0-105, S0-116 to S0-121, S0-123."""
    terminal.output("kubectl create -f -", "\n---\n".join(manifest for _, manifest in CASES.values()))
    listed = terminal.output("kubectl get pods --no-headers -o custom-columns=N:.metadata.name,Q:.status.qosClass")
    assert dict(line.split() for line in listed.splitlines()) == {
        name: expected for name, (expected, _) in CASES.items()
    }
    terminal.prints("kubectl describe pod cpu-alone | grep 'QoS Class'", "QoS Class:  Burstable")


def test_nobody_sets_the_class_by_hand(terminal: Terminal) -> None:
    """SC-26, S0-117."""
    terminal.output("kubectl create -f -", pod("p", *FOO_AND_BAR_WITH_LIMITS))
    terminal.output("kubectl wait pod/p --for=condition=Ready --timeout=20s")
    claim = '{"status":{"qosClass":"BestEffort"}}'
    terminal.prints(f"kubectl patch pod p -p '{claim}'", "pod/p patched (no change)")
    terminal.refuses(
        f"kubectl patch pod p --subresource=status -p '{claim}'",
        'The Pod "p" is invalid: status.qosClass: Invalid value: "BestEffort": field is immutable',
    )
    terminal.prints("kubectl get pod p -o jsonpath='{.status.qosClass}'", "Guaranteed")

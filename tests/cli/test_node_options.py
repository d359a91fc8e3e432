"""How `up` and `simulate` are told what their kubelets run with, and what they refuse before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import main

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  nodeSelector: {pool: batch}
  containers: [{name: c, image: i, resources: {requests: {memory: 16000Mi}}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: batch-1, labels: {pool: batch}, annotations: {sim.fairlead.dev/allocatable: computed}}
status: {capacity: {cpu: "4", memory: 16Gi}}
"""


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", "--for", "5s", "-q", *arguments])


@pytest.mark.parametrize("command", [["up", "--memory"], ["simulate"]])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-eviction-hard=memory.available<500Mi", "unknown shorthand flag: 'e' in -eviction-hard="),
        ("--experimental-qos-reserved memory=50%", "unknown flag: --experimental-qos-reserved; use --qos-reserved"),
        (
            "--experimental-kernel-memcg-notification",
            "unknown flag: --experimental-kernel-memcg-notification; use --kernel-memcg-notification",
        ),
        ("--qos-reserved=cpu=10%", 'cannot reserve "cpu" resource'),
        ("--qos-reserved=memory=50", "percentage expected, got '50'"),
        ("--qos-reserved=memory=150%", "percentage must be between 0 and 100"),
        ("--kube-reserved=memory=40Gi", 'Resource "memory" has a reservation of 41060Mi but capacity of 16Gi.'),
        ("--enforce-node-allocatable=none,pods", 'when "none" is specified'),
        ("--enforce-node-allocatable=pods,system-reserved", "(--system-reserved-cgroup) must be specified"),
        ("--eviction-hard=memory.free<1Gi", "memory.free"),
        ("--node-pods=5 --max-pods=6", "--node-pods and --max-pods say the same"),
        ("--node-config pool=a:nowhere.yaml", "nowhere.yaml: No such file"),
        ("--kube-reservd=1", "No such option"),
    ],
)
def test_what_a_kubelet_refuses_is_refused_before_anything_starts(
    command: list[str], arguments: str, message: str
) -> None:
    """SC-29, SC-31, S3-89, X-15."""
    result = CliRunner().invoke(main, [*command, *arguments.split()])
    assert result.exit_code == 2
    assert message.lower() in result.output.lower()


@pytest.mark.parametrize(
    ("arguments", "placed"),
    [
        ((), 1),
        (("--kube-reserved=memory=1Gi",), 0),
        (("--node-config", "pool=batch:{config}"), 0),
        (("--node-config", "pool in (batch,web):{config}"), 0),
        (("--node-config", "pool=web:{config}"), 1),
        (("--node-config", "{config}"), 0),
        (("--node-config", "{config}", "--kube-reserved=memory=10Mi"), 1),
    ],
)
def test_reservations_leave_less_for_pods(tmp_path: Path, arguments: tuple[str, ...], placed: int) -> None:
    config, pods, nodes = (tmp_path / name for name in ("kubelet.yaml", "pods.yaml", "nodes.yaml"))
    config.write_text("kind: KubeletConfiguration\nkubeReserved: {memory: 1Gi}\n")
    pods.write_text(POD)
    nodes.write_text(NODE)
    stated = [argument.format(config=config) for argument in arguments]
    result = simulate("--nodes-from", str(nodes), "--pods-from", str(pods), "-o", "json", *stated)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["placed"] == placed


def test_what_does_nothing_is_warned_of() -> None:
    """S3-92, SC-29."""
    result = simulate("--kernel-memcg-notification", "--qos-reserved=memory=50%")
    assert result.exit_code == 0
    assert "warning: kernelMemcgNotification (--kernel-memcg-notification) does nothing on cgroup v2" in result.stderr
    assert "the feature gate QOSReserved is not enabled" in result.stderr


def test_one_file_is_for_all_other_nodes(tmp_path: Path) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text("{}")
    result = simulate("--node-config", str(config), "--node-config", str(config))
    assert (result.exit_code, "two files are for all nodes" in result.output) == (2, True)

"""What a kubelet shows of its measurements: `/stats/summary`, `/metrics/resource`, `/metrics/cadvisor`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead.node.stats import endpoints
from fairlead.node.stats.measurements import DiskMeasurements, SwapMeasurements
from tests import measured_nodes
from tests.measured_nodes import AT, MI

_POD = measured_nodes.pod("web-1", "u-1", measured_nodes.container("web", 250, 300 * MI))
_NODE = measured_nodes.node("n1", _POD)
_MOMENT = int(AT * 1000)


def _summary(**query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(endpoints.answer("stats/summary", query, _NODE).body)
    return found


def _lines(path: str, node: Any = _NODE) -> list[str]:
    return endpoints.answer(path, {}, node).body.decode().splitlines()


def test_the_summary_shows_node_and_pods_by_the_names_of_v1alpha1() -> None:
    """S1-27: system containers are among it."""
    shown = _summary()
    node, pod = shown["node"], shown["pods"][0]
    assert [it["name"] for it in node["systemContainers"]] == ["kubelet", "runtime", "pods"]
    assert set(node) == {
        "nodeName", "systemContainers", "startTime", "cpu", "memory", "fs", "runtime", "rlimit", "swap",
    }  # fmt: skip
    assert set(node["runtime"]) == {"imageFs", "containerFs"}
    assert node["cpu"] == {
        "time": "2026-01-02T03:04:05Z",
        "usageNanoCores": 1_500_000_000,
        "usageCoreNanoSeconds": 5_400_000_000_000,
    }
    assert node["rlimit"] == {"time": "2026-01-02T03:04:05Z", "maxpid": 32768, "curproc": 200}
    assert pod["podRef"] == {"name": "web-1", "namespace": "default", "uid": "u-1"}
    assert [volume.get("pvcRef") for volume in pod["volume"]] == [None, {"name": "data-claim", "namespace": "default"}]
    assert pod["process_stats"] == {"process_count": 1}
    assert pod["ephemeral-storage"]["usedBytes"] == 8192
    web = pod["containers"][0]
    assert (web["rootfs"]["usedBytes"], web["logs"]["inodesUsed"]) == (4096, 3)
    assert web["memory"]["workingSetBytes"] == 300 * MI
    assert "availableBytes" not in web["memory"]  # without a limit nothing is known to be left


def test_the_summary_of_cpu_and_memory_has_no_disks() -> None:
    shown = _summary(only_cpu_and_memory="true")
    assert not {"fs", "runtime", "rlimit"} & set(shown["node"])
    assert set(shown["pods"][0]["containers"][0]) == {"name", "startTime", "cpu", "memory", "swap"}


def test_resource_metrics_have_kubelets_names_and_stability() -> None:
    lines = _lines("metrics/resource")
    names = {"container": "web", "namespace": "default", "pod": "web-1"}
    labels = ",".join(f'{name}="{value}"' for name, value in names.items())
    assert (
        "# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds" in lines
    )
    assert "# TYPE node_cpu_usage_seconds_total counter" in lines
    assert f"node_cpu_usage_seconds_total 5400 {_MOMENT}" in lines
    assert f"container_cpu_usage_seconds_total{{{labels}}} 15 {_MOMENT}" in lines
    assert f"container_memory_working_set_bytes{{{labels}}} 3.145728e+08 {_MOMENT}" in lines
    assert f"container_start_time_seconds{{{labels}}} 1.767322985e+09" in lines
    assert f'pod_cpu_usage_seconds_total{{namespace="default",pod="web-1"}} 15 {_MOMENT}' in lines
    assert "resource_scrape_error 0" in lines
    assert not any(line.startswith("container_swap_limit_bytes") for line in lines)


def test_a_swap_limit_is_shown_where_there_is_one() -> None:
    container = msgspec.structs.replace(_POD.containers[0], swap=SwapMeasurements(1, 2))
    node = measured_nodes.node("n1", measured_nodes.pod("web-1", "u-1", container))
    assert any(line.endswith(f"}} 3 {_MOMENT}") for line in _lines("metrics/resource", node))


def test_throttling_is_shown_of_containers_with_a_quota_only() -> None:
    assert not any("cfs" in line for line in _lines("metrics/cadvisor"))
    plain = _POD.containers[0]
    cpu = msgspec.structs.replace(plain.cpu, periods=600, throttled_periods=40, throttled_nanos=2_500_000_000)
    limited = msgspec.structs.replace(plain, cpu=cpu, cgroup="/kubepods/podu-1/abc", container_id="abc", image="web:1")
    lines = _lines("metrics/cadvisor", measured_nodes.node("n1", measured_nodes.pod("web-1", "u-1", limited)))
    labels = 'container="web",id="/kubepods/podu-1/abc",image="web:1",name="abc",namespace="default",pod="web-1"'
    assert f"container_cpu_cfs_periods_total{{{labels}}} 600 {_MOMENT}" in lines
    assert f"container_cpu_cfs_throttled_seconds_total{{{labels}}} 2.5 {_MOMENT}" in lines
    with_cpu = labels.replace("id=", 'cpu="total",id=')
    assert f"container_cpu_usage_seconds_total{{{with_cpu}}} 15 {_MOMENT}" in lines
    assert "machine_cpu_cores 4" in lines


def test_what_goes_to_disks_is_shown_of_each_cgroup_and_disk() -> None:
    used = DiskMeasurements("/dev/vda", 254, 0, read_bytes=4096, written_bytes=8192, reads=1, writes=2)
    container = msgspec.structs.replace(_POD.containers[0], disks=(used,))
    pod = msgspec.structs.replace(measured_nodes.pod("web-1", "u-1", container), disks=(used,))
    lines = _lines("metrics/cadvisor", msgspec.structs.replace(measured_nodes.node("n1", pod), disks=(used,)))
    written = [line for line in lines if line.startswith("container_fs_writes_bytes_total{")]
    assert len(written) == 3 and all('device="/dev/vda",' in line and " 8192 " in line for line in written)
    (usage,) = (line for line in lines if 'operation="Read"' in line and 'id="/"' in line)
    assert usage.startswith('container_blkio_device_usage_total{container="",device="/dev/vda",id="/",')
    assert 'major="254",minor="0",' in usage and " 4096 " in usage
    for name, count in (("reads", 1), ("writes", 2)):
        assert sum(line.startswith(f"container_fs_{name}_total{{") and f" {count} " in line for line in lines) == 3


def test_what_nobody_measures_of_networks_and_disks_is_left_out() -> None:
    assert "network" not in _summary()["node"] and "network" not in _summary()["pods"][0]
    names = ("container_network_", "container_fs_reads", "container_fs_writes", "container_blkio_")
    assert not any(line.startswith(names) for line in _lines("metrics/cadvisor"))


@pytest.mark.parametrize("path", ["", "stats", "nothing", "configz"])
def test_unknown_paths_are_not_found(path: str) -> None:
    found = endpoints.answer(path, {}, _NODE)
    assert (found.code, found.body) == (404, b"404 page not found\n")


def test_configz_shows_the_configuration_that_is_known() -> None:
    found = endpoints.answer("configz", {}, _NODE, {"maxPods": 110})
    assert json.loads(found.body) == {"kubeletconfig": {"maxPods": 110}}

"""How a row of the openb trace is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.sim.openb import read_nodes, read_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,32000,262144,2,V100M16\nn-1,500,1024,0,\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
late,1000,2048,0,0,,BE,Failed,20,90,30
early,12000,16384,1,460,V100M16|T4,LS,Running,0,,0
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    return path


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    return path


def test_nodes_offer_what_the_trace_says(nodes: Path) -> None:
    gpu, plain = read_nodes(nodes)
    assert gpu["status"]["allocatable"] == {
        "cpu": "32",
        "memory": "256Gi",
        "pods": "110",
        "openb.trace/gpu-milli": "2k",
    }
    assert gpu["metadata"]["labels"]["openb.trace/gpu-model"] == "V100M16"
    assert plain["status"]["allocatable"] == {"cpu": "500m", "memory": "1Gi", "pods": "110"}
    assert "openb.trace/gpu-model" not in plain["metadata"]["labels"]


def test_pods_come_in_the_order_of_their_creation(pods: Path) -> None:
    assert [(arrival.at, arrival.obj["metadata"]["name"]) for arrival in read_pods(pods)] == [
        (0.0, "early"),
        (20.0, "late"),
    ]


def test_a_pod_asks_for_what_the_trace_says(pods: Path) -> None:
    early, late = (arrival.obj for arrival in read_pods(pods))
    requests = early["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "12", "memory": "16Gi", "openb.trace/gpu-milli": "460"}
    affinity = early["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert term == {"key": "openb.trace/gpu-model", "operator": "In", "values": ["V100M16", "T4"]}
    assert "annotations" not in early["metadata"]
    assert late["metadata"]["annotations"] == {
        "sim.fairlead.dev/lifetime-seconds": "60",
        "sim.fairlead.dev/exit-code": "1",
    }


def test_a_pod_list_may_leave_out_what_decides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    columns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time"
    path.write_text(f"{columns}\na,1000,2048,0,0,,5\n")
    assert [arrival.at for arrival in read_pods(path)] == [5.0]


def test_a_pod_list_is_no_node_list(nodes: Path, pods: Path) -> None:
    with pytest.raises(ValueError, match="no openb node list: it has no column"):
        read_nodes(pods)
    with pytest.raises(ValueError, match="no openb pod list: it has no column"):
        read_pods(nodes)


@pytest.mark.parametrize("row", ["A_B,1,1,0,", "n,-1,1,0,", "n,x,1,0,", "n,1,1,many,", "n"])
def test_a_row_that_makes_no_sense_is_told_by_file_and_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{row}\n")
    with pytest.raises(ValueError, match=r"nodes\.csv, line 2: "):
        read_nodes(path)


def test_a_list_in_another_encoding_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(b"sn,cpu_milli,memory_mib,gpu,model\n\xff\xfe,1,1,0,\n")
    with pytest.raises(ValueError, match=r"nodes\.csv is no openb node list in UTF-8"):
        read_nodes(path)

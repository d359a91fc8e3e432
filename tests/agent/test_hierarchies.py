"""Which cgroup hierarchies are found on which machines, and what is done with them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.cgroups.hierarchies import Hierarchies, NoCgroups, hierarchies, own_cgroup
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import CgroupUsage, Throttling, memory_limit, throttling_of, usage_of
from fairlead.agent.machine import meminfo
from fairlead.agent.measuring.machine import ROOT, machine_usage, memory_bytes
from fairlead.node.stats.measurements import ProcessMeasurements

_HYBRID = """\
25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
29 25 0:26 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
30 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_a_hybrid_machine_is_version_1_with_a_unified_hierarchy_beside() -> None:
    found = hierarchies(_HYBRID.splitlines())
    assert (found.version, found.unified) == (1, Path("/sys/fs/cgroup/unified"))
    assert found.controllers["cpu"] == found.controllers["cpuacct"] == Path("/sys/fs/cgroup/cpu")
    assert [root.name for root in found.roots].count("cpu") == 1
    assert found.named == (Path("/sys/fs/cgroup/systemd"),)
    assert found.root_of("memory.limit_in_bytes") == Path("/sys/fs/cgroup/memory")
    assert found.root_of("hugetlb.2MB.limit_in_bytes") is None


def test_a_machine_without_the_memory_controller_is_refused_by_name() -> None:
    lines = [line for line in _HYBRID.splitlines() if "memory" not in line]
    with pytest.raises(NoCgroups, match="memory"):
        hierarchies(lines)


def _files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(value)


def test_the_working_set_of_version_2_leaves_out_what_the_kernel_can_take_back(tmp_path: Path) -> None:
    cgroups = Cgroups(Hierarchies(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)))
    stat = "anon 300\nfile 650\ninactive_file 400\npgfault 7\npgmajfault 2\n"
    cpu = "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 6\n"
    files = {
        "cpu.stat": cpu,
        "memory.max": "max\n",
        "memory.events": "oom 2\noom_kill 1\n",
        "memory.current": "1000\n",
        "memory.stat": stat,
        "pids.current": "3\n",
    }
    _files(tmp_path / "kubepods/podx", files)
    assert usage_of(cgroups, "/kubepods/podx") == CgroupUsage(
        cpu_nanoseconds=5000,
        memory_usage_bytes=1000,
        working_set_bytes=600,
        rss_bytes=300,
        cache_bytes=650,
        page_faults=7,
        major_page_faults=2,
        processes=3,
        oom_kills=1,
    )
    assert throttling_of(cgroups, "/kubepods/podx") == Throttling(9, 4, 6000)
    assert memory_limit(cgroups, "/kubepods/podx") is None
    assert usage_of(cgroups, "/kubepods/pody") is None


def test_the_working_set_of_version_1_counts_the_children(tmp_path: Path) -> None:
    controllers = {name: tmp_path / name for name in ("cpu", "cpuacct", "memory", "pids")}
    cgroups = Cgroups(Hierarchies(1, controllers))
    stat = "inactive_file 1\ntotal_inactive_file 2000\ntotal_rss 10\n"
    no_limit = str((1 << 63) - 4096)
    memory = {"memory.usage_in_bytes": "1000", "memory.stat": stat, "memory.limit_in_bytes": no_limit}
    _files(tmp_path / "memory/podx", memory)
    _files(tmp_path / "cpu/podx", {"cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 6\n"})
    _files(tmp_path / "cpuacct/podx", {"cpuacct.usage": "12"})
    _files(tmp_path / "pids/podx", {"pids.current": "1"})
    assert usage_of(cgroups, "/podx") == CgroupUsage(
        cpu_nanoseconds=12, memory_usage_bytes=1000, working_set_bytes=0, rss_bytes=10, processes=1
    )
    assert throttling_of(cgroups, "/podx") == Throttling(9, 4, 6)
    assert memory_limit(cgroups, "/podx") is None


def test_a_whole_machine_of_version_2_is_measured_by_its_own_account(tmp_path: Path) -> None:
    cgroups = Cgroups(Hierarchies(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)))
    _files(tmp_path, {"cpu.stat": "usage_usec 5\n", "memory.stat": "anon 300\ninactive_file 4096\n"})
    usage, processes = machine_usage(cgroups, ROOT)
    assert (usage.cpu_nanoseconds, usage.rss_bytes) == (5000, 300)
    assert usage.working_set_bytes == usage.memory_usage_bytes - 4096 > 0
    assert 0 < processes.current < processes.maximum
    assert memory_bytes(cgroups, ROOT) == meminfo()["MemTotal"]


def test_a_cgroup_that_stands_for_the_machine_has_what_it_is_limited_to(tmp_path: Path) -> None:
    cgroups = Cgroups(Hierarchies(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)))
    _files(tmp_path / "nested", {"memory.max": "65536\n", "memory.current": "4096\n"})
    _files(tmp_path / "nested", {"pids.max": "50\n", "pids.current": "7\n"})
    assert memory_bytes(cgroups, "/nested") == 65536
    assert machine_usage(cgroups, "/nested").processes == ProcessMeasurements(7, 50)


def test_what_the_kernel_refuses_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cgroups = Cgroups(Hierarchies(1, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)))
    for _ in range(2):
        cgroups.write("/gone", {"memory.limit_in_bytes": "1", "hugetlb.2MB.limit_in_bytes": "1"})
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "cgroup file memory.limit_in_bytes is left as it is",
        "cgroup file hugetlb.2MB.limit_in_bytes is left as it is",
    ]


def test_processes_of_another_pid_namespace_have_no_number(tmp_path: Path) -> None:
    """Killing 0 kills whoever kills."""
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/cgroup.procs").write_text("0\n7\n0\n")
    assert Cgroups(Hierarchies(2, {"memory": tmp_path})).processes("/pod") == {7}


def test_a_cpuset_of_version_1_made_with_mkdir_alone_gets_what_its_parent_has(tmp_path: Path) -> None:
    empty = {"cpuset.cpus": "\n", "cpuset.mems": "\n"}
    _files(tmp_path, {"cpuset.cpus": "0-3\n", "cpuset.mems": "0\n"})
    _files(tmp_path / "mine", empty)
    _files(tmp_path / "mine/pods", empty)
    _files(tmp_path / "mine/pods/one", {"cpuset.cpus": "2\n", "cpuset.mems": "\n"})

    Cgroups(Hierarchies(1, {"cpuset": tmp_path})).ensure("/mine/pods/one", {})

    assert (tmp_path / "mine/pods/cpuset.cpus").read_text() == "0-3\n"
    assert (tmp_path / "mine/pods/one/cpuset.cpus").read_text() == "2\n"
    assert (tmp_path / "mine/pods/one/cpuset.mems").read_text() == "0\n"


def test_the_own_cgroup_is_one_for_cpu_and_memory_or_none() -> None:
    together = ["5:pids:/elsewhere", "4:memory:/system.slice/agent", "2:cpu,cpuacct:/system.slice/agent"]
    assert own_cgroup(1, together) == "/system.slice/agent"
    assert own_cgroup(1, ["4:memory:/a", "2:cpu,cpuacct:/b"]) == ""
    assert own_cgroup(2, ["0::/system.slice/agent"]) == "/system.slice/agent"

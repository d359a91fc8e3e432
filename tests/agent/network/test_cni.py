"""Lists of plugins are read with care, and plugins are called as the specification says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.network.cni.attachments import Attachment, Attachments
from fairlead.agent.network.cni.configuration import BadConfiguration, Conflist, installed, parse, read
from fairlead.agent.network.cni.plugins import PluginFailed, Plugins
from fairlead.agent.network_seam import HostPort

#: Tells what it was asked in a file beside it, and fails if its configuration says so.
PLUGIN = """#!/bin/sh
config=$(cat)
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS $(basename $0) $config" >> "$(dirname $0)/calls"
case "$config" in *'"fails"'*) echo '{"code": 11, "msg": "try again", "details": "later"}'; exit 1;; esac
if [ "$CNI_COMMAND" = ADD ]; then
  echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.'$(wc -l < "$(dirname $0)/calls")'/24"}]}'
fi
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / name).write_text(PLUGIN)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def attachment(*plugins: dict[str, Any]) -> Attachment:
    return Attachment(
        container_id="c1",
        namespace="shop",
        name="web",
        uid="u1",
        netns="/run/netns/x",
        host_ports=(HostPort("TCP", 8088, 80, "192.168.0.1"), HostPort("UDP", 53, 53)),
        network=Conflist("net", "1.0.0", plugins),
    )


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_plugins_are_added_in_order_with_results_and_deleted_backwards(folder: Path) -> None:
    wanted = attachment(
        {"type": "first"}, {"type": "second", "capabilities": {"portMappings": True, "bandwidth": True}}
    )
    plugins = Plugins([folder / "none", folder])

    async def test() -> dict[str, Any]:
        result = await plugins.add(wanted.network, wanted.target)
        await plugins.delete(wanted.network, wanted.target, result)
        return result

    assert asyncio.run(test())["ips"] == [{"address": "10.1.0.2/24"}]
    added, then, deleted, last = (call.split(" ", 6) for call in calls(folder))
    pod = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1"
    assert added[:6] == ["ADD", "c1", "/run/netns/x", "eth0", f"IgnoreUnknown=1;{pod}", "first"]
    assert json.loads(added[6]) == {"type": "first", "cniVersion": "1.0.0", "name": "net"}
    second = json.loads(then[6])
    assert second["prevResult"]["ips"] == [{"address": "10.1.0.1/24"}]
    assert second["runtimeConfig"] == {
        "portMappings": [
            {"hostPort": 8088, "containerPort": 80, "protocol": "tcp", "hostIP": "192.168.0.1"},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp"},
        ]
    }
    assert [(call[0], call[5]) for call in (deleted, last)] == [("DEL", "second"), ("DEL", "first")]
    assert json.loads(last[6])["prevResult"]["ips"] == [{"address": "10.1.0.2/24"}]


def test_a_plugin_that_fails_says_why_and_deletion_goes_on(folder: Path) -> None:
    wanted = attachment({"type": "first"}, {"type": "second", "mode": "fails"})
    plugins = Plugins([folder])
    with pytest.raises(PluginFailed, match="plugin second of network net: try again: later"):
        asyncio.run(plugins.add(wanted.network, wanted.target))
    with pytest.raises(PluginFailed, match="try again"):
        asyncio.run(plugins.delete(wanted.network, wanted.target, None))
    assert [call.split()[5] for call in calls(folder)] == ["first", "second", "second", "first"]


@pytest.mark.parametrize("printed", ["", "[]", "nonsense", '{"ips": [{}]}', '{"ips": [{"address": 1}]}'])
def test_a_plugin_that_prints_no_result_fails(tmp_path: Path, printed: str) -> None:
    (tmp_path / "first").write_text(f"#!/bin/sh\ncat > /dev/null\necho '{printed}'\n")
    (tmp_path / "first").chmod(0o755)
    wanted = attachment({"type": "first"})
    with pytest.raises(PluginFailed, match="it printed no result"):
        asyncio.run(Plugins([tmp_path]).add(wanted.network, wanted.target))


def test_a_plugin_that_is_missing_is_named_with_the_folders(folder: Path) -> None:
    wanted = attachment({"type": "third"})
    with pytest.raises(PluginFailed, match=f"plugin third is in none of {folder}"):
        asyncio.run(Plugins([folder]).add(wanted.network, wanted.target))


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([], "a network is an object"),
        ({"cniVersion": "1.0.0", "plugins": [{"type": "x"}]}, "name"),
        ({"name": "a/b", "cniVersion": "1.0.0", "plugins": [{"type": "x"}]}, "name"),
        ({"name": "n", "cniVersion": "0.2.0", "plugins": [{"type": "x"}]}, "cniVersion: 0.2.0"),
        ({"name": "n", "type": "x"}, "cniVersion: 0.1.0"),
        ({"name": "n", "cniVersion": "1.0.0", "plugins": []}, "plugins"),
        ({"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "../sh"}]}, r"plugins\[0\].type"),
        ({"name": "n", "cniVersion": ["1"], "plugins": [{"type": "x"}]}, "cniVersion"),
    ],
)
def test_lists_that_make_no_sense_are_refused(found: Any, problem: str) -> None:
    with pytest.raises(BadConfiguration, match=problem):
        parse(found)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.conflist").write_text("{")
    for name in ("x.conflist", "y.conflist"):
        with pytest.raises(BadConfiguration, match=name):
            read(tmp_path / name)


def test_the_first_file_by_name_is_the_network_of_the_machine(tmp_path: Path) -> None:
    assert installed(tmp_path / "none") is None
    assert installed(tmp_path) is None
    for name in ("20-b.conflist", "10-a.conf", "00-note.txt"):
        (tmp_path / name).touch()
    assert installed(tmp_path) == tmp_path / "10-a.conf"
    (tmp_path / "10-a.conf").write_text(json.dumps({"name": "a", "cniVersion": "0.3.1", "type": "bridge"}))
    assert read(tmp_path / "10-a.conf").plugins[0]["type"] == "bridge"


def test_attachments_survive_the_process_and_damaged_files_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = attachment({"type": "first"})
    Attachments(tmp_path).put(wanted)
    for name, content in (("bad", "{"), ("other", "[]"), ("third", '{"host_ports": 1}')):
        (tmp_path / f"{name}.json").write_text(content)
    again = Attachments(tmp_path)
    assert list(again) == [wanted]
    assert caplog.text.count("cannot be read and is left alone") == 3
    again.remove("c1")
    again.remove("../bad")
    assert list(Attachments(tmp_path)) == []
    assert (tmp_path / "bad.json").exists()

"""Who a container runs as and what it may do, without starting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.runtimes.base import ContainerSpec, MachineDevice, Mount, RuntimeFailure, Security
from fairlead.agent.runtimes.oci.capabilities import capabilities
from fairlead.agent.runtimes.oci.config import config_of
from fairlead.agent.runtimes.oci.devices import give
from fairlead.agent.runtimes.oci.layout import ContainerFiles, SandboxFiles
from fairlead.agent.runtimes.oci.users import ImageUser, image_user
from fairlead.api.objects import Obj
from fairlead.node.cgroups.containers import ContainerValues


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    below, above = tmp_path / "below", tmp_path / "above"
    (below / "etc").mkdir(parents=True)
    (above / "etc").mkdir(parents=True)
    (below / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nold:x:7:7::/:/bin/sh\n")
    (above / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nbroken\napp:x:1000:1001::/home/app:/bin/sh\n")
    (below / "etc/group").write_text("audio:x:29:app,other\nmail:x:8:\n")
    return [below, above]


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("", ImageUser(0, 0, (), "/root")),
        ("app", ImageUser(1000, 1001, (29,), "/home/app")),
        ("1000", ImageUser(1000, 1001, (29,), "/home/app")),
        ("app:mail", ImageUser(1000, 8, (29,), "/home/app")),
        ("4000", ImageUser(4000, 0, (), "/")),
        ("4000:5000", ImageUser(4000, 5000, (), "/")),
    ],
)
def test_a_user_of_the_image(layers: list[Path], user: str, found: ImageUser) -> None:
    assert image_user(layers, user) == found


@pytest.mark.parametrize(("user", "named"), [("old", "user old"), ("app:nobody", "group nobody")])
def test_a_user_that_the_image_does_not_know(layers: list[Path], user: str, named: str) -> None:
    """The topmost passwd counts, as a whole."""
    with pytest.raises(RuntimeFailure, match=named):
        image_user(layers, user)


def test_an_id_that_is_none_is_nobody(layers: list[Path]) -> None:
    (layers[1] / "etc/passwd").write_text(f"huge:x:{'9' * 5000}:0::/:/bin/sh\n")
    for user in ("huge", "9" * 5000, f"0:{'9' * 5000}"):
        with pytest.raises(RuntimeFailure, match="unable to find"):
            image_user(layers, user)


def test_a_passwd_that_leads_out_of_the_image_is_not_read(layers: list[Path], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("evil:x:0:0::/:/bin/sh\n")
    (layers[1] / "etc/passwd").unlink()
    (layers[1] / "etc/passwd").symlink_to(outside)
    with pytest.raises(RuntimeFailure, match="user evil"):
        image_user(layers, "evil")


def test_capabilities_are_added_and_dropped() -> None:
    assert "CAP_CHOWN" in capabilities(Security())
    assert "CAP_CHOWN" not in capabilities(Security(dropped_capabilities=["CHOWN"]))
    only = Security(dropped_capabilities=["ALL"], added_capabilities=["NET_BIND_SERVICE"])
    assert capabilities(only) == ["CAP_NET_BIND_SERVICE"]
    assert "CAP_SYS_ADMIN" in capabilities(Security(added_capabilities=["ALL"]))
    with pytest.raises(RuntimeFailure, match="CAP_FLY"):
        capabilities(Security(added_capabilities=["fly"]))


def _config(layers: list[Path], security: Security = Security(), **more: Any) -> Obj:
    spec = ContainerSpec(
        id="c1",
        pod_uid="u",
        name="c",
        attempt=0,
        image="i",
        image_id="sha256:1",
        layers=layers,
        argv=["true"],
        env={"A": "b"},
        mounts=[Mount(Path("/data"), "/data", read_only=True)],
        resources=ContainerValues(
            cpu_shares=2, cpu_quota=50000, cpu_period=100000, memory_limit=1 << 20, oom_score_adj=-997
        ),
        security=security,
        log=Path("/log"),
        **more,
    )
    return config_of(spec, ContainerFiles(Path("/c/c1")), SandboxFiles(Path("/s/u")), "/kubepods/podu/c1", 0)


def test_an_oom_score_that_the_machine_refuses_is_the_least_that_it_takes(layers: list[Path]) -> None:
    assert _config(layers)["process"]["oomScoreAdj"] == 0


def test_devices_that_are_given_are_in_the_bundle_and_may_be_used(layers: list[Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    config = _config(layers, annotations={"note": "said"})
    assert config["annotations"] == {"note": "said"}
    every = [MachineDevice("/dev/null", "/dev/a", "rwm"), MachineDevice(str(tmp_path / "link"), "/dev/a", "r")]
    give(config, every)
    (node,) = config["linux"]["devices"]  # the second is in the place of the first
    assert (node["path"], node["type"], node["major"], node["minor"]) == ("/dev/a", "c", 1, 5)
    assert {"allow": True, "type": "c", "major": 1, "minor": 5, "access": "r"} in config["linux"]["resources"][
        "devices"
    ]
    for wrong, why in (("/dev/none", "failed to stat device /dev/none"), ("/etc/hostname", "is not a device node")):
        with pytest.raises(RuntimeFailure, match=why):
            give(config, [MachineDevice(wrong, "/dev/b", "rw")])


def test_limits_and_mounts_are_in_the_bundle(layers: list[Path]) -> None:
    config = _config(layers)
    assert config["linux"]["resources"]["memory"] == {"limit": 1 << 20}
    assert config["linux"]["resources"]["cpu"] == {"shares": 2, "quota": 50000, "period": 100000}
    data = next(mount for mount in config["mounts"] if mount["destination"] == "/data")
    assert data["options"] == ["rbind", "rprivate", "ro"]
    assert "A=b" in config["process"]["env"]


def test_whoever_is_not_root_holds_no_capabilities(layers: list[Path]) -> None:
    process = _config(layers, Security(user="app"))["process"]
    assert process["user"] == {"uid": 1000, "gid": 1001, "additionalGids": [29]}
    assert process["capabilities"]["effective"] == []


def test_root_is_refused_where_it_must_not_be(layers: list[Path]) -> None:
    with pytest.raises(RuntimeFailure, match="runAsNonRoot"):
        _config(layers, Security(must_not_be_root=True))

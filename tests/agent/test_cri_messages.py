"""The bytes of CRI's messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.grpc.protobuf import Malformed, Message, decode, encode
from fairlead.agent.runtimes.base import ContainerSpec, MachineDevice, SandboxSpec, Security
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import _user, container_config
from fairlead.node.cgroups.containers import ContainerValues

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text()


class Inner(Message, frozen=True):
    number: Annotated[int, 1] = 0
    texts: Annotated[list[str], 16] = []


class Outer(Message, frozen=True):
    text: Annotated[str, 1] = ""
    raw: Annotated[bytes, 2] = b""
    is_so: Annotated[bool, 3] = False
    number: Annotated[int, 4] = 0
    numbers: Annotated[list[int], 5] = []
    table: Annotated[dict[str, str], 6] = {}
    inner: Annotated[Inner | None, 7] = None
    many: Annotated[list[Inner], 8] = []


INNER = st.builds(Inner, number=INT64, texts=st.lists(TEXT, max_size=3))
OUTER = st.builds(
    Outer,
    text=TEXT,
    raw=st.binary(),
    is_so=st.booleans(),
    number=INT64,
    numbers=st.lists(INT64, max_size=4),
    table=st.dictionaries(TEXT, TEXT, max_size=3),
    inner=st.none() | INNER,
    many=st.lists(INNER, max_size=3),
)


@given(OUTER)
def test_what_is_written_is_what_is_read(message: Outer) -> None:
    assert decode(encode(message), Outer) == message


@given(st.binary(max_size=200))
def test_nonsense_is_refused_or_read(data: bytes) -> None:
    try:
        decode(data, Outer)
    except Malformed:
        return


@given(OUTER, st.data())
def test_a_message_that_is_cut_off_is_refused_or_read(message: Outer, data: st.DataObject) -> None:
    whole = encode(message)
    end = data.draw(st.integers(0, len(whole)))
    try:
        decode(whole[:end], Outer)
    except Malformed:
        return


def test_bytes_are_those_of_the_protobuf_documentation() -> None:
    """Its examples, as far as our types have them: 150 in field 1, `testing` in field 2, packed numbers."""
    assert encode(Inner(number=150)) == bytes.fromhex("089601")
    assert encode(cri.AuthConfig(password="testing")) == bytes.fromhex("120774657374696e67")
    assert decode(bytes.fromhex("2a06038e029ea705"), Outer).numbers == [3, 270, 86942]
    assert encode(cri.Int64Value(value=-1)) == bytes.fromhex("08ffffffffffffffffff01")


def test_what_nobody_declared_is_passed_over() -> None:
    unknown = bytes.fromhex("a00601a9060102030405060708ad0601020304b20603616263")
    assert decode(unknown + encode(Outer(text="known")), Outer) == Outer(text="known")


@pytest.mark.parametrize("text", ["08", "0a05", "08ffffffffffffffffffff01", "0b", "0801"])
def test_malformed_messages(text: str) -> None:
    with pytest.raises(Malformed):
        decode(bytes.fromhex(text), Outer)


@pytest.mark.parametrize("piece", ["4200", "2a020101", "3200", "a00600"])
def test_a_message_of_more_fields_than_anybody_needs_is_refused(piece: str) -> None:
    """Empty messages, packed numbers, empty maps, and what nobody knows."""
    part = bytes.fromhex(piece)
    assert decode(part * 10_000, Outer)
    with pytest.raises(Malformed, match="more than 524288 fields"):
        decode(part * 600_000, Outer)


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("", (None, "", None)),
        ("1000", (1000, "", None)),
        ("1000:7", (1000, "", 7)),
        ("app", (None, "app", None)),
        ("app:7", (None, "app", 7)),
        ("app:staff", (None, "app:staff", None)),
        ("0", (0, "", None)),
    ],
)
def test_a_user_is_told_by_number_or_by_name(user: str, told: tuple[int | None, str, int | None]) -> None:
    uid, name, gid = _user(Security(user=user))
    assert (uid and uid.value, name, gid and gid.value) == (told[0] if uid else None, told[1], told[2])
    assert (uid is None) == (told[0] is None)


def test_a_container_as_the_runtime_is_told_of_it() -> None:
    """An image goes by its name, too: CRI-O makes no container otherwise."""
    sandbox = SandboxSpec(uid="u", namespace="n", name="p", hostname="p", cgroup="/u", logs=Path("/l"))
    spec = ContainerSpec(
        id="c",
        pod_uid="u",
        name="c",
        attempt=0,
        image="a/b:1",
        image_id="sha256:1",
        layers=(),
        argv=["true"],
        env={},
        resources=ContainerValues(
            cpu_shares=2, cpu_quota=0, cpu_period=100_000, memory_limit=0, memory_swap_limit=0, oom_score_adj=0
        ),
        log=Path("/l/c"),
        devices=[MachineDevice("/dev/zero", "/dev/naught", "rw")],
        annotations={"of-a-plugin": "yes", "fairlead.dev/run": "its own"},
    )
    config = container_config(spec, sandbox, Path("/root"), Path("/words"), 0)
    assert (config.image.image, config.image.user_specified_image) == ("sha256:1", "a/b:1")
    assert config.devices == [cri.Device(container_path="/dev/naught", host_path="/dev/zero", permissions="rw")]
    assert (config.annotations["of-a-plugin"], config.annotations["fairlead.dev/run"]) == ("yes", "c")  # ours stay

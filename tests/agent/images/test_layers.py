"""What layers mean: one over the other they are what a plain model says, as overlay has them and flat."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.tar import TarReader
from fairlead.agent.images.unpacking import OPAQUE_ATTRIBUTE, Form, Unpacker
from tests.agent.images.archives import Entry, folder, hard_link, layer, link

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts, owners and devices are made by root alone")
#: A file's content by its path; a folder has None.
Files = dict[str, str | None]


def unpack_flat(root: Path, layers: Sequence[bytes], limits: Limits = Limits()) -> Path:
    unpacker = Unpacker(root, Form.FLAT, limits)
    for data in layers:
        unpacker.take_away(TarReader(io.BytesIO(data), limits))
        unpacker.put(TarReader(io.BytesIO(data), limits))
    unpacker.finish()
    return root


def unpack_overlay(root: Path, layers: Sequence[bytes], limits: Limits = Limits()) -> list[Path]:
    folders = []
    for number, data in enumerate(layers):
        place = root / str(number)
        place.mkdir()
        unpacker = Unpacker(place, Form.OVERLAY, limits)
        unpacker.put(TarReader(io.BytesIO(data), limits))
        unpacker.finish()
        folders.append(place)
    return folders


def seen(root: Path) -> Files:
    """What lies in a folder."""
    found: Files = {}
    for path in sorted(root.rglob("*")):
        found[str(path.relative_to(root))] = None if path.is_dir() else path.read_text()
    return found


def merged(layers: Sequence[Path]) -> Files:
    """What the kernel shows of overlay's lower directories, lowest first."""
    found: Files = {}
    for place in layers:
        for path in sorted(place.rglob("*")):  # folders before what is in them
            name = str(path.relative_to(place))
            if path.is_dir():
                if found.get(name, "") is not None or _is_opaque(path):
                    _drop(found, name)
                found[name] = None
            elif path.is_char_device():
                _drop(found, name)
            else:
                _drop(found, name)
                found[name] = path.read_text()
    return found


def _is_opaque(path: Path) -> bool:
    return OPAQUE_ATTRIBUTE in os.listxattr(path)


def _drop(files: Files, name: str) -> None:
    for other in [other for other in files if other == name or other.startswith(f"{name}/")]:
        del files[other]


def expected(layers: Sequence[Sequence[Entry]]) -> Files:
    """The plain model: of each layer first what it takes away, then what it has."""
    files: Files = {}
    for entries in layers:
        for entry in entries:
            place, _, base = entry.name.rpartition("/")
            if base == ".wh..wh..opq":
                for name in [name for name in files if not place or name.startswith(f"{place}/")]:
                    files.pop(name, None)
            elif base.startswith(".wh."):
                _drop(files, f"{place}/{base[4:]}".lstrip("/"))
        for entry in entries:
            if "/.wh." not in f"/{entry.name}":
                _add(files, entry)
            elif entry.name.endswith(".wh..wh..opq"):  # its folder is there
                _add(files, folder(entry.name.rpartition("/")[0]))
            else:
                _add(files, folder(entry.name.rpartition("/")[0]), is_implied=True)
    return files


def _add(files: Files, entry: Entry, *, is_implied: bool = False) -> None:
    parts = entry.name.split("/")
    for depth in range(1, len(parts)):
        _add_folder(files, "/".join(parts[:depth]))
    if entry.kind == "dir":
        if entry.name and not (is_implied and entry.name not in files):
            _add_folder(files, entry.name)
        return
    _drop(files, entry.name)
    files[entry.name] = entry.data.decode()


def _add_folder(files: Files, name: str) -> None:
    if files.get(name, "") is not None:
        _drop(files, name)
        files[name] = None


_PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
_FILES = st.builds(lambda name, text: Entry(name, text.encode()), _PATHS, st.sampled_from("123"))
_FOLDERS = st.builds(folder, _PATHS)


@st.composite
def image_layers(draw: st.DrawFn) -> list[list[Entry]]:
    """Layers of which each takes away what is below it, in whatever order, and only that, as tools make them."""
    layers: list[list[Entry]] = []
    for _ in range(draw(st.integers(1, 4))):
        entries = draw(st.lists(_FILES | _FOLDERS, max_size=5))
        below = expected(layers)
        gone = draw(st.lists(st.sampled_from(sorted(below)), max_size=3)) if below else []
        whiteouts = [Entry("/".join((*name.split("/")[:-1], f".wh.{name.rpartition('/')[2]}"))) for name in gone]
        folders = [name for name, text in below.items() if text is None]
        opaque = draw(st.lists(st.sampled_from(folders), max_size=1)) if folders else []
        markers = [entry for name in opaque for entry in (folder(name), Entry(f"{name}/.wh..wh..opq"))]
        taken = set(gone)
        markers = [entry for entry in markers if not any(f"{entry.name}/".startswith(f"{name}/") for name in taken)]
        whiteouts = [entry for entry in whiteouts if not _is_within(entry.name, {*taken, *opaque})]
        parents = [entry.name.rpartition("/")[0] for entry in whiteouts]
        fixed = [*markers, *(folder(name) for name in parents if name)]
        entries = [entry for entry in _without_conflicts([*fixed, *entries]) if entry not in fixed]
        layers.append(draw(st.permutations([*entries, *whiteouts, *markers])))
    return layers


def _is_within(name: str, folders: set[str]) -> bool:
    """A tool takes away a whole folder, and then says nothing of what was in it."""
    place = name.rpartition("/")[0]
    return any(f"{place}/".startswith(f"{other}/") for other in folders)


def _without_conflicts(entries: Sequence[Entry]) -> list[Entry]:
    """One layer has each path once, and no file where it has a folder."""
    kept: dict[str, Entry] = {}
    for entry in entries:
        parents = ["/".join(entry.name.split("/")[:depth]) for depth in range(1, entry.name.count("/") + 1)]
        is_parent = any(name.startswith(f"{entry.name}/") for name in kept)
        if entry.name in kept or (is_parent and entry.kind != "dir"):
            continue
        if any(parent in kept and kept[parent].kind != "dir" for parent in parents):
            continue
        kept[entry.name] = entry
    return list(kept.values())


@given(image_layers())
def test_flat_layers_are_what_the_model_says(layers: list[list[Entry]]) -> None:
    with TemporaryDirectory() as root:
        assert seen(unpack_flat(Path(root), [layer(*entries) for entries in layers])) == expected(layers)


@needs_root
@given(image_layers())
def test_layers_under_overlay_are_what_the_model_says(layers: list[list[Entry]]) -> None:
    with TemporaryDirectory() as root:
        assert merged(unpack_overlay(Path(root), [layer(*entries) for entries in layers])) == expected(layers)


@needs_root
def test_the_kernel_sees_the_whiteouts(tmp_path: Path) -> None:
    lower = layer(folder("d"), Entry("d/old"), Entry("gone"), folder("e"), Entry("e/hidden"), Entry("kept", b"1"))
    upper = layer(
        Entry(".wh.gone"), folder("d"), Entry("d/.wh.old"), Entry("d/new"), folder("e"), Entry("e/.wh..wh..opq")
    )
    (tmp_path / "layers").mkdir()
    (tmp_path / "merged").mkdir()
    layers = unpack_overlay(tmp_path / "layers", [lower, upper])
    options = f"ro,lowerdir={':'.join(map(str, reversed(layers)))}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(tmp_path / "merged")], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"this machine mounts no overlay: {mounted.stderr.strip()}")
    try:
        assert seen(tmp_path / "merged") == {"d": None, "d/new": "", "e": None, "kept": "1"}
    finally:
        subprocess.run(["umount", str(tmp_path / "merged")], check=True)


@needs_root
def test_owners_modes_times_links_and_capabilities_are_kept(tmp_path: Path) -> None:
    capability = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    (place,) = unpack_overlay(
        tmp_path,
        [
            layer(
                folder("tmp", 0o1777, mtime=1_000_000_000),
                Entry("tmp/ping", b"x", mode=0o4755, uid=7, gid=8, mtime=1_234_567_890.5),
                Entry("raw", b"x", mode=0o755, xattrs={"security.capability": capability.decode()}),
                hard_link("tmp/twin", "tmp/ping"),
                link("to", "/etc/passwd"),
                Entry("null", kind="chr", device=(1, 3), mode=0o666),
                Entry("pipe", kind="fifo"),
            )
        ],
    )
    ping = (place / "tmp/ping").stat()
    assert (ping.st_mode & 0o7777, ping.st_uid, ping.st_gid, ping.st_mtime) == (0o4755, 7, 8, 1_234_567_890.5)
    assert ping.st_ino == (place / "tmp/twin").stat().st_ino
    assert ((place / "tmp").stat().st_mode & 0o7777, (place / "tmp").stat().st_mtime) == (0o1777, 1_000_000_000)
    assert os.getxattr(place / "raw", "security.capability") == capability
    assert str((place / "to").readlink()) == "/etc/passwd"
    assert (place / "null").stat().st_rdev == os.makedev(1, 3)
    assert (place / "pipe").is_fifo()


@pytest.mark.parametrize(
    "entries",
    [
        [link("out", "/etc"), Entry("out/evil")],
        [link("out", "../../.."), Entry("out/evil")],
        [link("a", "b"), link("b", "/"), Entry("a/evil")],
        [Entry("/evil")],
        [Entry("//evil")],
        [link("file", "/tmp/evil-target"), Entry("file", b"over it")],
        [folder("d"), link("d/up", ".."), Entry("d/up/up/../evil".replace("/../", "/"))],
    ],
)
def test_nothing_lies_outside_however_it_is_named(entries: list[Entry], tmp_path: Path) -> None:
    root = tmp_path / "a" / "b" / "c" / "root"
    root.mkdir(parents=True)
    unpack_flat(root, [layer(*entries)])
    outside = [path for path in tmp_path.rglob("*") if root not in (path, *path.parents) and path not in root.parents]
    assert outside == []
    assert not Path("/etc/evil").exists()
    assert not Path("/evil").exists()
    assert not Path("/tmp/evil-target").exists()


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([Entry("../evil")], "leads out of it"),
        ([Entry("a/../../evil")], "leads out of it"),
        ([hard_link("passwd", "/etc/passwd")], "hard link to /etc/passwd, which is no file in its layer"),
        ([link("out", "/etc"), hard_link("passwd", "out/passwd")], "no file in its layer"),
        ([hard_link("passwd", "../../etc/passwd")], "leads out of it"),
        ([Entry("a/.wh.b/c")], "lies within a whiteout"),
        ([Entry("a/.wh.")], "takes away nothing"),
        ([Entry("a/.wh...")], "takes away nothing"),
        ([link("a", "b"), link("b", "a"), Entry("a/x")], "more than 40 symbolic links"),
        ([Entry("/".join("d" * 300))], "folders deep"),
        ([Entry("d" * 300)], "cannot be unpacked: File name too long"),
        ([Entry("d/" * 2500 + "x")], "name in the archive has more than 4096 bytes"),
    ],
)
def test_hostile_members_are_refused(entries: list[Entry], why: str, tmp_path: Path) -> None:
    with pytest.raises(BadImage, match=why):
        unpack_flat(tmp_path, [layer(*entries)])


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Entry("a\0b" + "x" * 200), "has a zero in it"),
        (link("a", "b\0" + "x" * 200), "has a zero in it"),
        (Entry("a", xattrs={"user.a\0b": "x"}), "has a zero in it"),
        (Entry("a", kind="chr", device=(1 << 40, 0)), "devmajor 1099511627776 is too large"),
        (Entry("a", kind="chr", device=(0, 1 << 31)), "devminor 2147483648 is too large"),
    ],
)
def test_what_no_file_system_can_be_asked_for_is_refused(entry: Entry, why: str, tmp_path: Path) -> None:
    data = layer(entry, form=tarfile.GNU_FORMAT if entry.kind == "chr" else tarfile.PAX_FORMAT)
    with pytest.raises(BadImage, match=why):
        unpack_flat(tmp_path, [data])


def test_whiteouts_take_nothing_outside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    root = tmp_path / "root"
    root.mkdir()
    target = str(victim)
    unpack_flat(root, [layer(link("out", target)), layer(Entry("out/.wh.file"), Entry("out/.wh..wh..opq"))])
    assert (victim / "file").exists()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(entries=3), "more than 3 members"),
        (Limits(name_bytes=20), "names in the archive have more than 20 bytes"),
        (Limits(unpacked_bytes=5), "unpacks to more than 5 bytes"),
    ],
)
def test_a_layer_is_bounded(limits: Limits, why: str, tmp_path: Path) -> None:
    entries = [Entry(f"name-{number}", b"12") for number in range(4)]
    with pytest.raises(BadImage, match=why):
        unpack_flat(tmp_path, [layer(*entries)], limits)


def test_a_huge_header_is_not_read(tmp_path: Path) -> None:
    data = layer(Entry("x", xattrs={"user.long": "v" * 2_000_000}))
    with pytest.raises(BadImage, match="a header of the archive has 2000"):
        unpack_flat(tmp_path, [data])


@given(data=st.data())
def test_a_damaged_layer_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(layer(folder("d"), Entry("d/" + "long" * 40, b"text"), link("l", "d"), hard_link("h", "l")))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with TemporaryDirectory() as root:
        try:
            unpack_flat(Path(root), [bytes(whole[:cut])])
        except BadImage as error:
            assert str(error)

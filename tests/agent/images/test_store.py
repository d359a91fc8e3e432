"""The store: what is loaded can be found, is shared, goes with its last name, and survives whatever interrupts it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.images.errors import BadImage, InUse, NotStored, StoreDamaged
from fairlead.agent.images.image import Image
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.rootfs import RunAs
from fairlead.agent.images.store import ImageStore
from tests.agent.images.archives import (
    ELSEWHERE,
    Blobs,
    Entry,
    config,
    digest,
    docker_archive,
    folder,
    layer,
    link,
    tar,
    written,
)

BASE = layer(folder("bin"), Entry("bin/sh", b"shell", mode=0o755))
APP = layer(Entry("app", b"application"), Entry("bin/.wh.sh"))
OTHER = layer(Entry("other", b"something else"))


def load(store: ImageStore, path: Path, name: str = "", run_as: RunAs = RunAs()) -> Sequence[Image]:
    return asyncio.run(store.load(path, name, run_as))


def remove(store: ImageStore, reference: str) -> None:
    asyncio.run(store.remove(reference))


def found(store: ImageStore, reference: str) -> Image:
    image = store.find(reference)
    assert image is not None
    return image


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "root")


def leftovers(tmp_path: Path) -> list[str]:
    """What is in the store's folder and belongs to no image."""
    root = tmp_path / "root" / "images"
    named = {path.name for image in ImageStore(tmp_path / "root").list() for path in image.layers}
    strays = [path.name for path in root.iterdir() if path.name not in ("index.json", "lock", "layers")]
    return strays + [path.name for path in (root / "layers").iterdir() if path.name not in named]


def test_what_docker_saved_is_found_by_every_name(store: ImageStore, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "Entrypoint": ["/app"],
        "Cmd": ["serve"],
        "Env": ["A=b"],
        "User": "7:8",
        "WorkingDir": "/srv",
        "StopSignal": "SIGINT",
        "Volumes": {"/data": {}},
        "Labels": {"is": "tested"},
    }
    (image,) = load(store, written(tmp_path / "app.tar", docker_archive({"team/app:v1": [BASE, APP]}, **options)))
    assert image.tags == ["docker.io/team/app:v1"]
    for name in ("team/app:v1", "docker.io/team/app:v1", image.id, image.id.removeprefix("sha256:")):
        assert store.find(name) == image
    assert store.find("team/app") is None
    assert image.id == digest(config([BASE, APP], **options))
    assert image.size_bytes == len(b"shell" + b"application")
    told = image.config
    assert (told.entrypoint, told.cmd, told.env) == (["/app"], ["serve"], ["A=b"])
    assert (told.user, told.working_dir, told.stop_signal) == ("7:8", "/srv", "SIGINT")
    assert (told.volumes, told.labels) == ({"/data": {}}, {"is": "tested"})
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="layers lie apart for root alone, who may make whiteouts")
def test_layers_lie_once_and_go_with_the_last_image(store: ImageStore, tmp_path: Path) -> None:
    archive = written(tmp_path / "both.tar", docker_archive({"app:v1": [BASE, APP], "other:v1": [BASE, OTHER]}))
    app, other = load(store, archive)
    assert app.layers[0] == other.layers[0]
    assert (app.layers[0] / "bin/sh").read_bytes() == b"shell"
    assert (app.layers[1] / "bin/sh").is_char_device()
    assert store.disk_usage().bytes == len(b"shell" + b"application" + b"something else")
    remove(store, "app:v1")
    assert store.find("app:v1") is None
    assert not app.layers[1].exists()
    assert (other.layers[0] / "bin/sh").exists()
    remove(store, other.id)
    assert store.list() == []
    assert (store.disk_usage().bytes, store.disk_usage().inodes) == (0, 0)
    assert leftovers(tmp_path) == []


def test_a_gzip_archive_is_what_it_holds(store: ImageStore, tmp_path: Path) -> None:
    plain = docker_archive({"app:v1": [BASE]})
    (packed,) = load(store, written(tmp_path / "app.tgz", gzip.compress(plain)))
    (image,) = load(store, written(tmp_path / "app.tar", plain))
    assert packed == image
    assert leftovers(tmp_path) == []


def test_an_image_keeps_its_other_names(store: ImageStore, tmp_path: Path) -> None:
    load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [BASE], "app:v2": [BASE]})))
    image = found(store, "app:v2")
    assert image.tags == ["docker.io/library/app:v1", "docker.io/library/app:v2"]
    remove(store, "app:v1")
    assert found(store, "app:v2").id == image.id
    assert store.find("app:v1") is None


def test_a_tag_belongs_to_who_got_it_last(store: ImageStore, tmp_path: Path) -> None:
    (old,) = load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [BASE]})))
    (new,) = load(store, written(tmp_path / "b.tar", docker_archive({"app:v1": [OTHER]})))
    assert found(store, "app:v1").id == new.id
    assert found(store, old.id).tags == []


def test_an_index_gives_the_image_of_this_machine(store: ImageStore, tmp_path: Path) -> None:
    blobs = Blobs()
    here, elsewhere = blobs.image([BASE, APP]), blobs.image([OTHER], ELSEWHERE)
    attestation = {**blobs.image([OTHER]), "platform": {"os": "unknown", "architecture": "unknown"}}
    index = blobs.index(attestation, elsewhere, here)
    (image,) = load(store, written(tmp_path / "oci.tar", blobs.archive({"registry.io/app:v1": index})))
    assert image.id == digest(config([BASE, APP]))
    assert image.digests == [f"registry.io/app@{index['digest']}"]
    assert found(store, f"registry.io/app@{index['digest']}") == image


def test_of_several_variants_the_one_that_every_machine_runs_is_taken(store: ImageStore, tmp_path: Path) -> None:
    blobs = Blobs()
    fast, plain = blobs.image([OTHER]), blobs.image([BASE])
    index = blobs.index({**fast, "platform": {**fast["platform"], "variant": "v4"}}, plain)
    (image,) = load(store, written(tmp_path / "oci.tar", blobs.archive({"r.io/app:v1": index})))
    assert image.id == digest(config([BASE]))


def test_an_image_for_others_is_refused_by_what_it_is_for(store: ImageStore, tmp_path: Path) -> None:
    blobs = Blobs()
    index = blobs.index(blobs.image([OTHER], ELSEWHERE))
    archive = written(tmp_path / "oci.tar", blobs.archive({"r.io/app:v1": index}))
    with pytest.raises(
        BadImage, match=rf"no match for platform in manifest {index['digest']}: not found .*{ELSEWHERE}"
    ):
        load(store, archive)
    with pytest.raises(BadImage, match="no match for platform"):
        load(store, written(tmp_path / "docker.tar", docker_archive({"a:v1": [BASE]}, architecture=ELSEWHERE)))
    assert store.list() == []


def test_a_bare_tag_names_nothing_but_a_name_can_be_given(store: ImageStore, tmp_path: Path) -> None:
    blobs = Blobs()
    archive = written(tmp_path / "oci.tar", blobs.archive({"v1": blobs.image([BASE])}))
    with pytest.raises(BadImage, match="give it a name with --name"):
        load(store, archive)
    (image,) = load(store, archive, "r.io/app:v1")
    assert image.tags == ["r.io/app:v1"]


def test_a_root_file_system_becomes_an_image(store: ImageStore, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    (rootfs / "bin/tool").write_bytes(b"tool")
    (rootfs / "bin/tool").chmod(0o755)
    (rootfs / "bin/twin").hardlink_to(rootfs / "bin/tool")
    (rootfs / "sh").symlink_to("bin/tool")
    run_as = RunAs(["/bin/tool"], ["--help"], ["PATH=/bin"])
    (image,) = load(store, rootfs, "tools:1", run_as)
    assert (image.config.entrypoint, image.config.cmd, image.config.env) == (["/bin/tool"], ["--help"], ["PATH=/bin"])
    (place,) = image.layers
    assert (place / "sh").read_bytes() == b"tool"
    assert (place / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (place / "bin/tool").stat().st_ino == (place / "bin/twin").stat().st_ino
    assert load(store, rootfs, "tools:1", run_as)[0].id == image.id

    with tarfile.open(tmp_path / "rootfs.tar.gz", "w:gz") as archive:
        archive.add(rootfs, ".")
    (image,) = load(store, tmp_path / "rootfs.tar.gz", "tools:2")
    assert (image.layers[0] / "bin/tool").read_bytes() == b"tool"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "there is nothing in it"),
        (tar({"etc/passwd": b""}), "no archive of images; .* name the image with --name"),
        (b"nothing like an archive" * 100, "damaged"),
        (b"\x28\xb5\x2f\xfd" + b"z" * 600, "compressed with zstd"),
        (gzip.compress(b"x" * 5000, mtime=0)[:-12], "cut off"),
        (tar({"manifest.json": b"{"}), "manifest.json is damaged"),
        (tar({"manifest.json": b"[" * 100_000}), "manifest.json is damaged"),
        (tar({"manifest.json": b"[]"}), "there is no image in the archive"),
        (tar({"manifest.json": b'[{"Config": "c.json", "Layers": []}]'}), "the archive is not whole: it has no c.json"),
        (tar({"manifest.json": b" " * 5_000_000}), "manifest.json has 5000000 bytes; at most 4194304 are taken"),
        (tar({"oci-layout": b"{}", "index.json": b'{"manifests": [{"digest": "../../etc"}]}'}), "is no digest"),
        (docker_archive({"": [BASE]}), "give it a name with --name"),
        (docker_archive({"a:v1": [layer(Entry("../evil"))]}), "leads out of it"),
        (docker_archive({"a:v1": [BASE[:700]]}), "the archive is cut off"),
        (docker_archive({"a:v1": [BASE]})[:4000], "."),
    ],
)
def test_a_bad_archive_leaves_the_store_as_it_was(data: bytes, why: str, store: ImageStore, tmp_path: Path) -> None:
    load(store, written(tmp_path / "good.tar", docker_archive({"good:v1": [OTHER]})))
    before = store.list()
    with pytest.raises(BadImage, match=why):
        load(store, written(tmp_path / "bad.tar", data))
    assert store.list() == before
    assert leftovers(tmp_path) == []


def test_a_layer_that_is_not_what_the_configuration_says_is_refused(store: ImageStore, tmp_path: Path) -> None:
    document = config([BASE])
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["a:v1"], "Layers": ["l.tar"]}]).encode()
    archive = tar({"c.json": document, "l.tar": OTHER, "manifest.json": manifest})
    with pytest.raises(BadImage, match=f"says {digest(BASE)} of it, unpacked it is {digest(OTHER)}"):
        load(store, written(tmp_path / "a.tar", archive))
    blobs = Blobs()
    image = blobs.image([BASE])
    for name, data in blobs.blobs.items():
        if data.startswith(b"\x1f\x8b"):
            blobs.blobs[name] = gzip.compress(BASE, compresslevel=1, mtime=5)
    with pytest.raises(BadImage, match="its digest is sha256:"):
        load(store, written(tmp_path / "b.tar", blobs.archive({"r.io/a:v1": image})))
    assert leftovers(tmp_path) == []


def test_zstd_is_refused_by_name(store: ImageStore, tmp_path: Path) -> None:
    document = config([BASE])
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["a:v1"], "Layers": ["l.tar"]}]).encode()
    archive = tar({"c.json": document, "l.tar": b"\x28\xb5\x2f\xfd rest", "manifest.json": manifest})
    with pytest.raises(BadImage, match="compressed with zstd, which is not understood here"):
        load(store, written(tmp_path / "a.tar", archive))


def test_a_gzip_bomb_is_bounded(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "root", Limits(unpacked_bytes=1_000_000))
    bomb = gzip.compress(layer(Entry("zeros", bytes(3_000_000))))
    with pytest.raises(BadImage, match="decompresses to more than 1000000 bytes"):
        load(store, written(tmp_path / "bomb.tgz", bomb), "bomb:v1")
    assert leftovers(tmp_path) == []


def test_too_many_layers_are_refused(store: ImageStore, tmp_path: Path) -> None:
    layers = [layer(Entry(str(number))) for number in range(128)]
    with pytest.raises(BadImage, match="has 128 layers; at most 127 are taken"):
        load(store, written(tmp_path / "a.tar", docker_archive({"a:v1": layers})))


def test_a_link_in_the_archive_leads_to_no_file_outside(store: ImageStore, tmp_path: Path) -> None:
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["a:v1"], "Layers": ["../../../etc/passwd"]}]).encode()
    members = layer(Entry("c.json", config([BASE])), link("l.tar", "/etc/passwd"), Entry("manifest.json", manifest))
    with pytest.raises(BadImage, match="the archive is not whole"):
        load(store, written(tmp_path / "a.tar", members))


def test_an_alias_stands_for_an_image_that_is_no_more(store: ImageStore, tmp_path: Path) -> None:
    (image,) = load(store, written(tmp_path / "a.tar", docker_archive({"redis:7": [BASE]})))
    asyncio.run(store.alias("gcr.io/google_containers/redis:v1", "redis:7"))
    assert found(store, "gcr.io/google_containers/redis:v1") == image
    assert asyncio.run(store.pull("gcr.io/google_containers/redis:v1")) == image
    remove(store, "gcr.io/google_containers/redis:v1")
    assert store.find("gcr.io/google_containers/redis:v1") is None
    assert found(store, "redis:7") == image
    with pytest.raises(BadImage, match="cannot stand for itself"):
        asyncio.run(store.alias("redis:7", "docker.io/library/redis:7"))


def test_what_is_not_there_cannot_be_removed(store: ImageStore) -> None:
    for reference in ("nginx", f"sha256:{'0' * 64}", f"nginx@sha256:{'0' * 64}"):
        with pytest.raises(NotStored, match="no such image"):
            remove(store, reference)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mounted_image_is_not_removed(store: ImageStore, tmp_path: Path) -> None:
    (image,) = load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [BASE, APP]})))
    target = tmp_path / "merged"
    target.mkdir()
    options = f"ro,lowerdir={':'.join(map(str, reversed(image.layers)))}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(target)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"this machine mounts no overlay: {mounted.stderr.strip()}")
    try:
        assert sorted(path.name for path in target.iterdir()) == ["app", "bin"]
        with pytest.raises(InUse, match="app:v1 is in use"):
            remove(store, "app:v1")
    finally:
        subprocess.run(["umount", str(target)], check=True)
    remove(store, "app:v1")
    assert store.list() == []


def test_what_is_no_file_is_not_waited_for(store: ImageStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadImage, match="neither a file nor a folder"):
        load(store, tmp_path / "pipe", "pipe:v1")
    with pytest.raises(BadImage, match="it is not there"):
        load(store, tmp_path / "nothing")


def test_names_of_strangers_do_not_reach_the_terminal(store: ImageStore, tmp_path: Path) -> None:
    hostile = docker_archive({"a:v1": [layer(Entry("../\x1b[2J\udcff"))]})
    with pytest.raises(BadImage) as refused:
        load(store, written(tmp_path / "a.tar", hostile))
    assert str(refused.value).isprintable()
    assert str(refused.value).encode()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_said_and_leaves_the_store_as_it_was(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path / "root")]
    if (mounted := subprocess.run(mount, capture_output=True, text=True)).returncode:
        pytest.skip(f"this machine mounts no tmpfs: {mounted.stderr.strip()}")
    try:
        load(store, written(tmp_path / "small.tar", docker_archive({"small:v1": [BASE]})))
        before = store.list()
        large = written(tmp_path / "large.tar", docker_archive({"large:v1": [layer(Entry("file", bytes(2_000_000)))]}))
        with pytest.raises(OSError, match="No space left on device"):
            load(store, large)
        assert store.list() == before
        assert leftovers(tmp_path) == []
    finally:
        subprocess.run(["umount", str(tmp_path / "root")], check=True)


def test_a_damaged_index_is_named(store: ImageStore, tmp_path: Path) -> None:
    load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [BASE]})))
    index = tmp_path / "root" / "images" / "index.json"
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(StoreDamaged, match=r"index\.json is damaged"):
        store.list()
    with pytest.raises(StoreDamaged):
        load(store, tmp_path / "a.tar")
    assert list((tmp_path / "root" / "images" / "layers").iterdir()) != []


_LOADER = """
import asyncio, os, sys
from pathlib import Path
from fairlead.agent.images import index, importing, unpacking
from fairlead.agent.images.store import ImageStore

left = int(sys.argv[3])

def dying(event, _):
    # Every call into the file system is an instant at which the process may end.
    global left
    if event in EVENTS:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown", "os.utime", "os.setxattr"}
store = ImageStore(Path(sys.argv[1]))
sys.addaudithook(dying)
asyncio.run(store.load(Path(sys.argv[2])))
print("done")
"""


@pytest.mark.slow
def test_a_process_killed_at_any_instant_leaves_a_store_that_opens(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "root")
    load(store, written(tmp_path / "old.tar", docker_archive({"old:v1": [BASE]})))
    new = written(tmp_path / "new.tar", docker_archive({"new:v1": [BASE, APP]}))
    old, instant, states = found(store, "old:v1"), 0, set()
    while True:
        command = [sys.executable, "-c", _LOADER, str(tmp_path / "root"), str(new), str(instant)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        assert found(store, "old:v1") == old
        states.add(store.find("new:v1") is None)
        if ended.returncode == 0:
            break
        if (image := store.find("new:v1")) is not None:
            assert all(place.is_dir() for place in image.layers)
            remove(store, "new:v1")
        instant += 4
    assert states == {True, False}
    load(store, new)
    assert leftovers(tmp_path) == []


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from fairlead.agent.images.store import ImageStore;"
        "asyncio.run(ImageStore(Path(sys.argv[1])).load(Path(sys.argv[2])))"
    )
    processes = []
    for number in range(4):
        archive = docker_archive({f"app:v{number}": [BASE, layer(Entry(f"file-{number}", bytes(100_000)))]})
        path = written(tmp_path / f"{number}.tar", archive)
        processes.append(subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "root"), str(path)]))
    assert [process.wait() for process in processes] == [0] * 4
    assert len(ImageStore(tmp_path / "root").list()) == 4
    assert leftovers(tmp_path) == []


@pytest.mark.slow
def test_loading_lets_the_loop_serve_others(store: ImageStore, tmp_path: Path) -> None:
    entries = [Entry(f"d{number % 50}/file-{number}", bytes(2000)) for number in range(10_000)]
    archive = written(tmp_path / "many.tgz", gzip.compress(docker_archive({"many:v1": [layer(*entries)]})))

    async def longest_wait() -> float:
        """As a part of the time that it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        loading = asyncio.ensure_future(store.load(archive))
        longest = 0.0
        while not loading.done():
            before = loop.time()
            await asyncio.sleep(0.005)
            longest = max(longest, loop.time() - before)
        await loading
        return longest / (loop.time() - began)

    assert asyncio.run(longest_wait()) < 0.5


def test_an_unprivileged_user_gets_the_layers_in_one() -> None:
    layers = [layer(folder("d", 0o555, uid=9), Entry("d/sh", b"shell")), layer(Entry("d/app", b"1"), Entry("d/.wh.sh"))]
    program = f"""
import asyncio, concurrent.futures.thread, os  # all of them while root may still read where Python is
from pathlib import Path
from fairlead.agent.images.store import ImageStore
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
store = ImageStore(Path("root"))
Path("a.tar").write_bytes({docker_archive({"app:v1": layers})!r})
(image,) = asyncio.run(store.load(Path("a.tar")))
(place,) = image.layers
print(image.is_flat, sorted(path.name for path in (place / "d").iterdir()), oct((place / "d").stat().st_mode))
asyncio.run(store.remove("app:v1"))
print(store.list(), list(Path("root/images/layers").iterdir()))
"""
    with TemporaryDirectory() as home:  # pytest's own are root's alone
        if os.geteuid() == 0:
            os.chown(home, 65534, 65534)
        told = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True)
    assert told.stdout.splitlines() == ["True ['app'] 0o40555", "[] []"], told.stderr


def test_what_a_killed_download_left_is_swept_away(store: ImageStore, tmp_path: Path) -> None:
    load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [BASE]})))
    left = tmp_path / "root" / "images" / "temporary-abc"
    left.mkdir()
    (left / "sha256-0").write_bytes(b"half")
    remove(store, "app:v1")
    assert leftovers(tmp_path) == []


def test_layers_can_be_entered_whatever_the_umask(store: ImageStore, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        (image,) = load(store, written(tmp_path / "a.tar", docker_archive({"app:v1": [layer(Entry("d/sh"))]})))
    finally:
        os.umask(before)
    assert [(image.layers[0] / name).stat().st_mode & 0o777 for name in (".", "d", "d/sh")] == [0o755, 0o755, 0o644]


@given(data=st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    blobs = Blobs()
    entry = blobs.image([BASE, APP], Cmd=["/sh"])
    archive = data.draw(
        st.sampled_from([docker_archive({"app:v1": [BASE, APP]}), blobs.archive({"r.io/app:v1": blobs.index(entry)})])
    )
    damaged = bytearray(archive)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as place:
        store = ImageStore(Path(place) / "root")
        try:
            images = load(store, written(Path(place) / "a.tar", bytes(damaged)))
        except BadImage as error:
            assert str(error).startswith(place)
            assert store.list() == []
        else:
            assert list(images) == store.list()
        assert leftovers(Path(place)) == []

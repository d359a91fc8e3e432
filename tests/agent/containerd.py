"""A containerd of a test's own: nothing of it is in the machine's folders, and nothing is left when the block ends."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from fairlead.agent import linux
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.runtimes.cri import messages as cri
from tests.agent.images.archives import Entry, docker_archive, folder, layer, link
from tests.agent.machine import missing

PAUSE = "fairlead.test/pause:1"
START_SECONDS = 30.0
#: Of a hundred pods, on a machine that has much to do.
_REMOVAL_SECONDS = 120.0

#: Where the programs of another containerd are than the machine's own, and of a runc or crun that goes with it.
FOLDER = "FAIRLEAD_CONTAINERD"
#: Whether CRI-O runs in the place of containerd.
IS_CRIO = "FAIRLEAD_CRIO" in os.environ
_PATH = os.pathsep.join(filter(None, (os.environ.get(FOLDER), os.environ["PATH"])))
_ENVIRONMENT = {**os.environ, "PATH": _PATH}
_PROGRAMS = ("containerd", "ctr", "runc")
PLUGINS = Path("/usr/lib/cni")
_CRI = 'plugins."io.containerd.grpc.v1.cri"'
_DISABLED = [f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")]
_CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = {disabled}
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[{cri}]
restrict_oom_score_adj = true
sandbox_image = "{pause}"
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.crun.options]
BinaryName = "crun"
[{cri}.registry]
config_path = "{folder}/certs"
[{cri}.cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.nri.v1.nri"]
disable = true
"""


@lru_cache
def missing_containerd() -> str:
    """Why containerd cannot be run here; empty if it can."""
    if why := missing():
        return why
    if not IS_CRIO and (absent := [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]):
        return f"a container runtime behind CRI needs {', '.join(absent)} (apt-get install containerd runc)"
    if not (PLUGINS / "ptp").exists():
        return "containerd needs plugins for the network of pods (apt-get install containernetworking-plugins)"
    return ""


@lru_cache
def _version() -> tuple[int, ...]:
    """Its first numbers; those of none are the lowest."""
    if IS_CRIO:
        return (2,)  # it can do what that can
    if missing_containerd():
        return ()
    command = ["containerd", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT, check=True).stdout
    numbers = re.search(r" v?(\d+)\.(\d+)\.", said)
    assert numbers is not None, said
    return tuple(map(int, numbers.groups()))


with_containerd = pytest.mark.skipif(bool(missing_containerd()), reason=missing_containerd())
before_containerd_2 = pytest.mark.skipif(
    _version() >= (2,), reason="containerd 2 can do what this expects to be refused"
)
since_containerd_2 = pytest.mark.skipif(
    _version() < (2,), reason=f"takes containerd 2: {FOLDER} names the folder of its programs (CONTRIBUTING.md)"
)


@dataclass
class Containerd:
    folder: Path
    #: Words of a command before its own: where it runs.
    within: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    #: As ids of its containers begin.
    name: ClassVar = "containerd"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.folder}/containerd.sock"

    def start(self) -> None:
        """Return once it serves."""
        with (self.folder / "log").open("ab") as log:
            command = [*self.within, *self._command()]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=_ENVIRONMENT)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def configure(self, pause: str) -> None:
        disabled = msgspec.json.encode(_DISABLED).decode()
        config = _CONFIG.format(folder=self.folder, cri=_CRI, pause=pause, plugins=PLUGINS, disabled=disabled)
        (self.folder / "config.toml").write_text(config)

    def _command(self) -> Sequence[str]:
        return ["containerd", "--config", str(self.folder / "config.toml")]

    def _answers(self) -> bool:
        return self._ctr("version", check=False).returncode == 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Containers run on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)

    def kill(self) -> None:
        """The same without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_SECONDS)

    def kill_empty_shims(self) -> None:
        """One that is killed while it starts a container forgets the shim; without a daemon no other is here."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"containerd-shim-runc-v2") and f"{self.folder}/containerd.sock".encode() in words:
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def _ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        socket = f"{self.folder}/containerd.sock"
        command = ["ctr", "--address", socket, "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT)
        assert done.returncode == 0 or not check, done.stderr
        return done

    def containers(self) -> list[str]:
        """The ids of all there are, those of sandboxes too."""
        return self._ctr("containers", "list", "--quiet").stdout.split()

    def images(self) -> list[str]:
        """Their names."""
        return self._ctr("images", "list", "--quiet").stdout.split()

    @contextmanager
    def without_leases(self) -> Iterator[None]:
        """While the block runs no pod gets an address, nor gives one back: so none can be stopped."""
        leases, away = self.folder / "leases", self.folder / "leases-away"
        leases.rename(away)
        leases.touch()
        try:
            yield
        finally:
            leases.unlink()
            away.rename(leases)

    def load(self, name: str, rootfs: Path, **config: Any) -> None:
        """An image of that root file system."""
        archive = self.folder / "image.tar"
        archive.write_bytes(docker_archive({name: [layer(*entries(rootfs))]}, **config))
        self._ctr("images", "import", str(archive))
        archive.unlink()


def entries(rootfs: Path) -> Iterator[Entry]:
    """What a root file system has, as a layer says it."""
    for path in sorted(rootfs.rglob("*")):
        name = str(path.relative_to(rootfs))
        if path.is_symlink():
            yield link(name, str(path.readlink()))
        elif path.is_dir():
            yield folder(name, 0o1777 if name == "tmp" else 0o755)
        else:
            yield Entry(name, path.read_bytes(), mode=path.stat().st_mode & 0o777)


@contextmanager
def containerd(rootfs: Path, within: Sequence[str] = (), *, has_network: bool = True) -> Iterator[Containerd]:
    """It runs while the block does; what its pods pause with is a program of the root file system."""
    with tempfile.TemporaryDirectory(prefix="fairlead-cri-") as name, _daemon(Path(name), within) as found:
        place = found.folder  # paths of sockets are short
        place.chmod(0o711)  # as /run is: root of a pod with users of its own passes through
        found.configure(PAUSE)
        (place / "cni").mkdir()
        if has_network:
            (place / "cni/10-test.conflist").write_bytes(msgspec.json.encode(_network(place)))
        found.start()
        try:
            found.load(PAUSE, rootfs, Entrypoint=["/bin/sleep", "1000000"])
            yield found
        finally:
            if not found.is_running:
                found.start()
            try:
                with ThreadPoolExecutor(1) as apart:  # from the loop of a test
                    apart.submit(asyncio.run, _remove_pods(found.endpoint)).result()
            finally:
                found.stop()
                found.kill_empty_shims()
                linux.unmount_below(place)


def _daemon(place: Path, within: Sequence[str]) -> AbstractContextManager[Containerd]:
    if IS_CRIO:
        from tests.agent.crio import crio

        return crio(place, within)
    return nullcontext(Containerd(place, within))


async def _remove_pods(endpoint: str) -> None:
    """Whosever they are."""
    client = Client(endpoint)
    every = cri.ListPodSandboxRequest(filter=cri.LabelFilter())
    async with asyncio.timeout(_REMOVAL_SECONDS):
        while True:
            with suppress(CallFailed):  # it has just been started, or a container is being started
                if not (found := (await client.call(cri.LIST_SANDBOXES, every)).items):
                    break
                running = cri.ListContainersRequest(filter=cri.ContainerFilter())
                for each in (await client.call(cri.LIST, running)).containers:
                    if each.state == cri.RUNNING:
                        with suppress(CallFailed):  # its process was lost when the daemon was killed
                            await client.call(cri.STOP, cri.StopContainerRequest(container_id=each.id))
                for sandbox in found:
                    await client.call(cri.STOP_SANDBOX, cri.PodSandboxId(pod_sandbox_id=sandbox.id))
                    await client.call(cri.REMOVE_SANDBOX, cri.PodSandboxId(pod_sandbox_id=sandbox.id))
            await asyncio.sleep(0.05)
    client.close()


def _network(place: Path) -> Mapping[str, Any]:
    """Pods with addresses of a subnet that nobody else has, reached from this machine alone."""
    subnet = f"10.{random.randrange(200, 250)}.{random.randrange(256)}.0/24"
    ipam = {"type": "host-local", "dataDir": str(place / "leases"), "ranges": [[{"subnet": subnet}]]}
    return {"cniVersion": "0.4.0", "name": place.name, "plugins": [{"type": "ptp", "ipam": ipam}]}

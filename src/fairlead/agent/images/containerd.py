"""Images for containerd, by its own program `ctr`: CRI has no call that takes in an archive."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import BinaryIO, Final, cast

import msgspec

from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.references import parse
from fairlead.agent.images.rootfs import RunAs, image_of, pack

#: Where containerd has what CRI shows.
_NAMESPACE: Final = "k8s.io"
_SCHEME: Final = "unix://"
_SECONDS: Final = 600.0
#: How gRPC answers who asks another runtime for what containerd has besides CRI.
_NOT_CONTAINERD: Final = "unknown service containerd."


def load(endpoint: str, path: Path, name: str, run_as: RunAs) -> str:
    """Take in an archive, or a root file system (a folder) under that name: what `ctr` said. BadImage if it cannot."""
    with _archive(path, name, run_as) as archive:
        socket = endpoint.removeprefix(_SCHEME)
        command = ["ctr", "--address", socket, "--namespace", _NAMESPACE, "images", "import", str(archive)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except FileNotFoundError:
            raise BadImage("ctr is not installed: apt-get install containerd") from None
        except subprocess.TimeoutExpired:
            raise BadImage(f"containerd did not take {path} within {_SECONDS:g} s") from None
    if _NOT_CONTAINERD in done.stderr:
        raise BadImage(
            f"the container runtime at {socket} is not containerd, and takes in no archives: let it pull the image "
            "from a registry"
        )
    if done.returncode:
        raise BadImage(f"containerd at {socket} does not take {path}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def _archive(path: Path, name: str, run_as: RunAs) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    if not name:
        raise BadImage(f"{path} is a root file system: say what the image is called with --name")
    with TemporaryFile() as layer, NamedTemporaryFile(suffix=".tar") as file:
        pack(path, cast(BinaryIO, layer))
        config = image_of(cast(BinaryIO, layer), name, run_as).config
        with tarfile.open(fileobj=file, mode="w") as archive:
            manifest = [{"Config": "config.json", "RepoTags": [str(parse(name))], "Layers": ["layer.tar"]}]
            for member, data in (("manifest.json", msgspec.json.encode(manifest)), ("config.json", config)):
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, BytesIO(data))
            info = tarfile.TarInfo("layer.tar")
            info.size = layer.seek(0, 2)
            layer.seek(0)
            archive.addfile(info, cast(BinaryIO, layer))
        file.flush()
        yield Path(file.name)

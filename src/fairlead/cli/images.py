"""`fairlead images`: the images of this machine, for nodes that run containers without containerd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from fairlead.agent.images import containerd
from fairlead.agent.images.credentials import Keyring, keyring
from fairlead.agent.images.errors import ImageError, InvalidReference
from fairlead.agent.images.examples import build
from fairlead.agent.images.image import Image
from fairlead.agent.images.rootfs import RunAs
from fairlead.agent.images.store import ImageStore
from fairlead.cli.failures import Failure, WrongUsage, parsing
from fairlead.cli.node_root import SHOWN_ROOT, default_root

_Command = Callable[..., Any]


@click.group(short_help="The images of this machine, for nodes that run containers.")
def images() -> None:
    """Images of this machine, for nodes that run containers without containerd. They may be loaded, pulled and
    removed before a node runs and while it does."""


def _store_option(command: _Command) -> _Command:
    return click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        default=default_root,
        show_default=SHOWN_ROOT,
        help="Of the node agent: images lie in the folder images of it.",
    )(command)


@images.command(short_help="Take in archives of images, or a root file system.")
@_store_option
@click.option("--name", default="", metavar="REF", help="Of the image; needed for a root file system.")
@click.option("--entrypoint", multiple=True, metavar="WORD", help="Of a root file system; once for each word.")
@click.option("--cmd", multiple=True, metavar="WORD", help="Of a root file system; once for each word.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Of a root file system; may be repeated.")
@click.option(
    "--container-runtime-endpoint",
    default="",
    metavar="SOCKET",
    help="Of a containerd that is to have them instead, for nodes with --runtime cri.",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE...")
def load(
    root: Path,
    name: str,
    entrypoint: tuple[str, ...],
    cmd: tuple[str, ...],
    env: tuple[str, ...],
    container_runtime_endpoint: str,
    files: Sequence[Path],
) -> None:
    """Take in what docker save, podman save or skopeo copy wrote (docker-archive and oci-archive, plain or gzip), or
    a root file system: a folder, or a tar archive of one.

    \b
    Example:
      fairlead images load redis.tar
      fairlead images load rootfs/ --name tools:1 --entrypoint /bin/busybox --cmd sh
    """
    if name and len(files) > 1:
        raise WrongUsage("--name names one image: load one file at a time")
    if wrong := next((entry for entry in env if "=" not in entry), None):
        raise WrongUsage(f"--env {wrong}: write NAME=VALUE")
    if container_runtime_endpoint:
        for file in files:
            with _explained():
                click.echo(containerd.load(container_runtime_endpoint, file, name, RunAs(entrypoint, cmd, env)))
        return
    store = ImageStore(root)
    for file in files:
        with _explained():
            loaded = asyncio.run(store.load(file, name, RunAs(entrypoint, cmd, env)))
        for image in loaded:
            _tell("Loaded", image)


@images.command("list", short_help="What is here.")
@_store_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def list_(root: Path, output: str) -> None:
    """The images of this machine, and the aliases."""
    with _explained():
        store = ImageStore(root)
        found, aliases = store.list(), store.aliases()
    if output == "json":
        document = {"images": [_as_object(image) for image in found], "aliases": aliases}
        click.echo(msgspec.json.encode(document).decode())
        return
    rows = [("IMAGE", "ID", "SIZE")]
    for image in found:
        for name in image.tags or image.digests or ["<none>"]:
            rows.append((name, _short(image), f"{image.size_bytes / 1e6:.1f} MB"))
    rows += [(old, f"is {new}", "") for old, new in sorted(aliases.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, what, size in rows:
        click.echo(f"{name:<{widths[0]}}  {what:<{widths[1]}}  {size}".rstrip())


@images.command(short_help="Remove names of images, and images with their last name.")
@_store_option
@click.argument("references", nargs=-1, required=True, metavar="REF...")
def rm(root: Path, references: Sequence[str]) -> None:
    """Remove a name, and the image with its last one; by id or digest the image and all its names; or an alias."""
    store = ImageStore(root)
    for reference in references:
        with _explained():
            asyncio.run(store.remove(reference))
        click.echo(f"Removed {reference}")


@images.command(short_help="Another name, for an image that no longer exists.")
@_store_option
@click.argument("old")
@click.argument("new")
def alias(root: Path, old: str, new: str) -> None:
    """Whoever asks for OLD gets the image NEW, wherever no image has the name OLD itself.

    \b
    Example:
      fairlead images alias gcr.io/google_containers/redis:v1 redis:7
    """
    with _explained():
        asyncio.run(ImageStore(root).alias(old, new))
    click.echo(f"{old} is now {new}")


@images.command(short_help="Fetch an image from its registry.")
@_store_option
@click.option(
    "--credentials",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Docker configuration with logins (config.json, as docker login writes it).",
)
@click.argument("reference", metavar="REF")
def pull(root: Path, credentials: Path | None, reference: str) -> None:
    """Fetch an image from its registry: docker.io unless its name says otherwise. Registries on this machine's
    loopback are asked over plain HTTP."""
    with parsing():
        logins = keyring([credentials.read_bytes()]) if credentials else Keyring()
    with _explained():
        image = asyncio.run(ImageStore(root).pull(reference, logins))
    _tell("Pulled", image)


@images.command("build-examples", short_help="The programs of Kubernetes' documents that nobody publishes any more.")
@_store_option
def build_examples(root: Path) -> None:
    """Compile saadali/simmemleak (takes 10 MiB more each second) and gcr.io/google_containers/serve_hostname
    (answers HTTP with the name of its pod on port 9376) with this machine's C compiler. Nothing is downloaded."""
    store = ImageStore(root)
    with _explained(), TemporaryDirectory() as folder:
        for name, program, rootfs in build(Path(folder)):
            for image in asyncio.run(store.load(rootfs, name, RunAs(entrypoint=[program]))):
                _tell("Built", image)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except InvalidReference as error:
        raise WrongUsage(str(error)) from None
    except ImageError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure(f"{where}{error.strerror}. Choose another place with --root, or make room there.") from None


def _tell(what: str, image: Image) -> None:
    click.echo(f"{what} {', '.join(image.tags) or image.id} ({_short(image)})")
    if image.is_flat:
        click.echo(
            "warning: this user may make no whiteouts: layers lie over each other, without owners and devices",
            err=True,
        )


def _short(image: Image) -> str:
    return image.id.removeprefix("sha256:")[:12]


def _as_object(image: Image) -> dict[str, object]:
    return {
        "id": image.id,
        "tags": image.tags,
        "digests": image.digests,
        "sizeBytes": image.size_bytes,
        "config": image.config,
        "layers": [str(layer) for layer in image.layers],
        "isFlat": image.is_flat,
    }

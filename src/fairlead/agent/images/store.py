"""The images of one machine, kept for a runtime that has no containerd.

Layers lie once, however many images have them, and go with the last. Long work is done in threads. Two processes may
use a store at once: one changes it, the others wait; whoever only looks never waits.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from fairlead.agent.images import references, rootfs
from fairlead.agent.images.archive import Archive, plain_file
from fairlead.agent.images.contents import ImageContents
from fairlead.agent.images.credentials import Credential, Keyring
from fairlead.agent.images.errors import BadImage, InUse, NotStored, PullFailed
from fairlead.agent.images.image import DiskUsage, Image
from fairlead.agent.images.importing import Importer, config_of, layer_keys
from fairlead.agent.images.index import Index, IndexFile, StoredImage
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.mounted import images_of_containers, mounted_layers
from fairlead.agent.images.pulling import Pull
from fairlead.agent.images.references import Reference
from fairlead.agent.images.rootfs import RunAs
from fairlead.agent.images.unpacking import OPAQUE_ATTRIBUTE, Form

_PROBE: Final = "probe"
#: Their own: who waits for the lock of another process holds up no other work in threads.
_THREADS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="images")

T = TypeVar("T")


class ImageStore:
    """`root` is the agent's: images lie in the folder `images` of it. Raises ImageError; OSError of the disk."""

    def __init__(self, root: Path, limits: Limits = Limits()) -> None:
        self._root = root.absolute() / "images"
        self._file = IndexFile(self._root)
        self._limits = limits
        self._form: Form | None = None

    # To look

    def list(self) -> list[Image]:
        """All images, in the order of their first names."""
        index = self._file.read()
        images = [self._image(index, found) for found in index.images]
        return sorted(images, key=lambda image: (list(image.tags), image.id))

    def find(self, reference: str) -> Image | None:
        """The image that a name, a digest, an id or an alias means. Raises InvalidReference."""
        index = self._file.read()
        found = _find(index, reference)
        return None if found is None else self._image(index, found)

    def aliases(self) -> dict[str, str]:
        """The name that each alias stands for."""
        return dict(self._file.read().aliases)

    def disk_usage(self) -> DiskUsage:
        """What the layers take."""
        layers = self._file.read().layers.values()
        return DiskUsage(sum(layer.size_bytes for layer in layers), sum(layer.entries for layer in layers))

    # To change

    async def load(self, path: Path, name: str = "", run_as: RunAs = RunAs()) -> Sequence[Image]:
        """Take in an archive of images; or a root file system, folder or tar, as the image `name`."""
        tag = _tag(name) if name else ""
        return await _in_thread(self._load, path, tag, run_as)

    async def pull(self, reference: str, keyring: Keyring = Keyring()) -> Image:
        """Fetch an image from its registry; each matching credential is tried. Raises PullFailed, InvalidReference.

        An alias of an image that is here already is not asked for anywhere.
        """
        asked = references.parse(reference)
        if alias := self._file.read().aliases.get(str(asked)):
            if image := self.find(alias):
                return image
            asked = references.parse(alias)
        refusals: list[PullFailed] = []
        credentials: Sequence[Credential | None] = keyring.lookup(asked) or [None]
        for credential in credentials:
            try:
                return await self._pull(asked, Pull(asked, credential, self._limits))
            except PullFailed as refusal:
                refusals.append(refusal)
        if len(refusals) == 1:
            raise refusals[0]
        raise PullFailed(f"[{', '.join(dict.fromkeys(map(str, refusals)))}]", refusals[-1].code)

    async def remove(self, reference: str) -> None:
        """By a name: the image goes with its last one. By id or digest: the image and all its names. Or an alias.

        Raises NotStored, InUse.
        """
        await _in_thread(self._remove, reference)

    async def alias(self, old: str, new: str) -> None:
        """Whoever asks for `old` gets what `new` names, wherever no image has that name itself."""
        await _in_thread(self._alias, references.parse(old), references.parse(new))

    # Underneath, in threads

    def _load(self, path: Path, tag: str, run_as: RunAs) -> Sequence[Image]:
        with self._file.locked() as index:
            temporary = self._file.temporary()
            try:
                if path.is_dir():
                    return self._load_folder(index, path, tag, run_as, temporary)
                if not path.is_file():
                    raise BadImage("it is neither a file nor a folder" if path.exists() else "it is not there")
                with plain_file(path, temporary, self._limits) as file:
                    archive = Archive(file, self._limits)
                    images = archive.images()
                    if archive.is_empty:
                        raise BadImage("there is nothing in it")
                    if images is None:
                        images = [rootfs.image_of(file, _required(tag), run_as)]
                    elif run_as != RunAs():
                        raise BadImage(
                            "its images say themselves what they run: options for that are for root file systems"
                        )
                    return self._take_in(index, _named(images, tag))
            except BadImage as error:
                raise type(error)(f"{path}: {error}") from None

    def _load_folder(self, index: Index, folder: Path, tag: str, run_as: RunAs, temporary: Path) -> Sequence[Image]:
        _required(tag)
        if self._root.resolve().is_relative_to(folder.resolve()):
            raise BadImage(f"the images themselves are in it ({self._root})")
        with temporary.open("w+b") as file:
            rootfs.pack(folder, file)
            return self._take_in(index, [rootfs.image_of(file, tag, run_as)])

    def _take_in(self, index: Index, images: Sequence[ImageContents]) -> Sequence[Image]:
        importer = Importer(index, self._file.layers, self._form_here(), self._limits)
        added = dict.fromkeys([importer.add(contents) for contents in images])
        index.drop_unused_layers()
        self._file.write(index)
        return [self._image(index, image) for image in added]

    async def _pull(self, reference: Reference, pull: Pull) -> Image:
        with pull.explained():
            async with pull:
                contents = await pull.contents()
                needed = await _in_thread(self._needed, contents)
                downloads = self._file.downloads()
                folder = await _in_thread(downloads.__enter__)
                try:
                    await pull.download(needed, folder)
                    return await _in_thread(self._take_in_pulled, pull.downloaded(contents, folder))
                finally:
                    await _in_thread(downloads.__exit__, None, None, None)

    def _needed(self, contents: ImageContents) -> set[str]:
        """The digests of those packed layers that are not here."""
        config = config_of(contents, self._limits)
        with self._file.locked() as index:
            form = self._form_here()
        keys = layer_keys(config, form)
        if form is Form.FLAT:
            return set() if all(key in index.layers for key in keys) else {layer.digest for layer in contents.layers}
        layers = zip(keys, contents.layers, strict=True)
        return {layer.digest for key, layer in layers if key not in index.layers}

    def _take_in_pulled(self, contents: ImageContents) -> Image:
        with self._file.locked() as index:
            return self._take_in(index, [contents])[0]

    def _remove(self, reference: str) -> None:
        with self._file.locked() as index:
            found = _find_stored(index, reference)
            name = "" if references.image_id(reference) else str(references.parse(reference))
            if found is None:
                if index.aliases.pop(name, None) is None:
                    raise NotStored(f"no such image: {reference}")
            else:
                stored = index.images[found]
                if stored.tags != [name] and name in stored.tags:
                    kept = [tag for tag in stored.tags if tag != name]
                    index.images[found] = StoredImage(kept, stored.digests, stored.layers, stored.config)
                else:
                    self._refuse_if_mounted(index, found, reference)
                    del index.images[found]
            index.drop_unused_layers()
            self._file.write(index)

    def _refuse_if_mounted(self, index: Index, image: str, reference: str) -> None:
        if image in images_of_containers(self._root.parent / "containers"):
            raise InUse(f"{reference} is in use: a container of it is on this node")
        others = {layer for other, stored in index.images.items() if other != image for layer in stored.layers}
        own = {index.layers[key].folder for key in index.images[image].layers if key not in others}
        if own & mounted_layers(self._file.layers):
            raise InUse(f"{reference} is in use: a container of it is mounted")

    def _alias(self, old: Reference, new: Reference) -> None:
        if old == new:
            raise BadImage(f"{old} cannot stand for itself")
        with self._file.locked() as index:
            if str(new) in index.aliases:
                raise BadImage(f"{new} is an alias itself, of {index.aliases[str(new)]}")
            index.aliases[str(old)] = str(new)
            self._file.write(index)

    def _image(self, index: Index, found: str) -> Image:
        stored = index.images[found]
        layers = [index.layers[key] for key in stored.layers]
        return Image(
            id=found,
            tags=stored.tags,
            digests=stored.digests,
            size_bytes=sum(layer.size_bytes for layer in layers),
            config=stored.config,
            layers=[self._file.layers / layer.folder for layer in layers],
            is_flat=any(key.startswith("flat:") for key in stored.layers),
        )

    def _form_here(self) -> Form:
        """Whether this process may make overlay's whiteouts. Only while locked: its probe is swept away."""
        if self._form is None:
            self._form = Form.FLAT
            probe = self._file.layers / _PROBE
            with suppress(OSError):
                probe.mkdir()
                os.setxattr(probe, OPAQUE_ATTRIBUTE, b"y")
                os.mknod(probe / _PROBE, stat.S_IFCHR, os.makedev(0, 0))
                self._form = Form.OVERLAY
        return self._form


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, function, *arguments)


def _find(index: Index, reference: str) -> str | None:
    found = _find_stored(index, reference)
    if found is None and not references.image_id(reference):
        alias = index.aliases.get(str(references.parse(reference)))
        return _find_stored(index, alias) if alias else None
    return found


def _find_stored(index: Index, reference: str) -> str | None:
    """The id of the image that has the name, the digest or the id."""
    if found := references.image_id(reference):
        return found if found in index.images else None
    name = str(references.parse(reference))
    for image, stored in index.images.items():
        if name in stored.tags or name in stored.digests:
            return image
    return None


def _tag(name: str) -> str:
    reference = references.parse(name)
    if reference.digest:
        raise BadImage(f"{name} is a digest: an image gets that from what it holds, give it a tag instead")
    return str(reference)


def _required(tag: str) -> str:
    if not tag:
        raise BadImage("it is no archive of images; if it is a root file system, name the image with --name")
    return tag


def _named(images: Sequence[ImageContents], tag: str) -> Sequence[ImageContents]:
    if tag:
        if len(images) > 1:
            raise BadImage(f"{len(images)} images are in it, which cannot all be named {tag}")
        image = images[0]
        return [ImageContents(image.config, image.layers, [tag, *image.tags], image.digests, image.digest)]
    if any(not image.tags for image in images):
        raise BadImage("it does not say how its image is named: give it a name with --name")
    return images

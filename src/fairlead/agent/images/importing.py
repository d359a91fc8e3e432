"""Takes an image in: unpacks the layers that are not there yet, and holds each to the digest that it is stated to
have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from fairlead.agent.images.contents import ImageContents, LayerSource
from fairlead.agent.images.errors import BadImage
from fairlead.agent.images.index import Index, StoredImage, StoredLayer
from fairlead.agent.images.limits import Limits
from fairlead.agent.images.manifests import ContainerConfig, ImageConfig, Platform, decode, no_match, runs_here
from fairlead.agent.images.references import is_digest
from fairlead.agent.images.streams import Decompressed, Hashed, digest_of
from fairlead.agent.images.tar import TarReader
from fairlead.agent.images.unpacking import Form, Unpacker


class Importer:
    """Adds images to an index that is locked; their layers are unpacked below `layers`."""

    def __init__(self, index: Index, layers: Path, form: Form, limits: Limits) -> None:
        self._index = index
        self._layers = layers
        self._form = form
        self._limits = limits

    def add(self, contents: ImageContents) -> str:
        """The id of the image. Raises BadImage; what it had unpacked is then named by nobody."""
        config = config_of(contents, self._limits)
        left = self._limits
        for layer in self._missing(contents.layers, config.rootfs.diff_ids):
            stored = self._unpack(*layer, left)
            left = replace(left, unpacked_bytes=left.unpacked_bytes - stored.size_bytes)
        found = digest_of(contents.config)
        self._name(found, contents, config.config or ContainerConfig(), layer_keys(config, self._form))
        return found

    def _missing(
        self, sources: Sequence[LayerSource], diff_ids: Sequence[str]
    ) -> Sequence[tuple[str, Sequence[LayerSource], Sequence[str]]]:
        """What is to be unpacked into one folder each: its key, its layers and their digests."""
        if self._form is Form.FLAT:
            key = _chain(diff_ids)
            return [] if key in self._index.layers else [(key, sources, diff_ids)]
        layers = dict(zip(diff_ids, sources, strict=True))
        return [(key, [source], [key]) for key, source in layers.items() if key not in self._index.layers]

    def _unpack(self, key: str, sources: Sequence[LayerSource], diff_ids: Sequence[str], limits: Limits) -> StoredLayer:
        folder = str(self._index.next_folder)
        self._index.next_folder += 1
        place = self._layers / folder
        place.mkdir()
        place.chmod(0o755)  # it becomes the root of containers, whatever the umask
        unpacker = Unpacker(place, self._form, limits)
        for source, diff_id in zip(sources, diff_ids, strict=True):
            try:
                self._read(source, diff_id, unpacker, limits)
            except BadImage as error:
                raise BadImage(f"the layer {source.digest or diff_id} is refused: {error}") from None
        unpacker.finish()
        stored = StoredLayer(folder, unpacker.size_bytes, unpacker.entries)
        self._index.layers[key] = stored
        return stored

    def _read(self, source: LayerSource, diff_id: str, unpacker: Unpacker, limits: Limits) -> None:
        if self._form is Form.FLAT:
            with source.open() as packed:
                unpacker.take_away(TarReader(Decompressed(packed), limits))
        with source.open() as opened:
            packed_hash = Hashed(opened, _algorithm(source.digest))
            plain = Hashed(Decompressed(packed_hash), _algorithm(diff_id))
            reader = TarReader(plain, limits)
            unpacker.put(reader)
            reader.drain()
            packed_hash.drain()
        if source.digest and packed_hash.digest != source.digest:
            raise BadImage(f"its digest is {packed_hash.digest}")
        if plain.digest != diff_id:
            raise BadImage(f"its configuration says {diff_id} of it, unpacked it is {plain.digest}")

    def _name(self, image: str, contents: ImageContents, config: ContainerConfig, layers: list[str]) -> None:
        """A tag belongs to the image that got it last."""
        taken = set(contents.tags)
        for other, stored in self._index.images.items():
            if taken.intersection(stored.tags):
                self._index.images[other] = _without(stored, taken)
        known = self._index.images.get(image)
        tags, digests = (known.tags, known.digests) if known else ([], [])
        self._index.images[image] = StoredImage(
            list(dict.fromkeys([*tags, *contents.tags])),
            list(dict.fromkeys([*digests, *contents.digests])),
            layers,
            config,
        )


def config_of(contents: ImageContents, limits: Limits) -> ImageConfig:
    """The configuration of an image for this machine. Raises BadImage."""
    config = decode(contents.config, ImageConfig, f"the configuration of {contents.digest}")
    diff_ids = config.rootfs.diff_ids
    platform = Platform(config.architecture, config.os, config.variant)
    if not runs_here(platform):
        raise no_match(contents.digest, str(platform))
    if len(diff_ids) != len(contents.layers):
        raise BadImage(f"{contents.digest} has {len(contents.layers)} layers, its configuration {len(diff_ids)}")
    if len(diff_ids) > limits.layers:
        raise BadImage(f"{contents.digest} has {len(diff_ids)} layers; at most {limits.layers} are taken")
    if wrong := next((text for text in diff_ids if not is_digest(text)), None):
        raise BadImage(f"the configuration of {contents.digest} has {wrong[:80]!r} for the digest of a layer")
    return config


def layer_keys(config: ImageConfig, form: Form) -> list[str]:
    """The keys of an image's layers in the index, lowest first."""
    diff_ids = list(config.rootfs.diff_ids)
    if not diff_ids or form is Form.OVERLAY:
        return diff_ids
    return [_chain(diff_ids)]


def _chain(diff_ids: Sequence[str]) -> str:
    return f"flat:{hashlib.sha256(' '.join(diff_ids).encode()).hexdigest()}"


def _algorithm(digest: str) -> str:
    return digest.partition(":")[0] or "sha256"


def _without(stored: StoredImage, tags: set[str]) -> StoredImage:
    return StoredImage([tag for tag in stored.tags if tag not in tags], stored.digests, stored.layers, stored.config)

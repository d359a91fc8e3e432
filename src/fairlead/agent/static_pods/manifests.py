"""What the files of `staticPodPath` say: one pod a file, made complete and checked as a kubelet does it.

Nobody else checks them: what is wrong with one must be said, and must not keep the others from running. Reference:
pkg/kubelet/config/{file,common}.go.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.api.builtin import PODS
from fairlead.api.errors import ApiError
from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj, metadata
from fairlead.golang import yaml as goyaml
from fairlead.kinds.meta import validate_meta
from fairlead.kinds.object_references import api_reference
from fairlead.kinds.pods import PodStrategy
from fairlead.node.critical import CONFIG_SOURCE

#: The hash of the file's pod, which is its uid on this node.
CONFIG_HASH: Final = "kubernetes.io/config.hash"
_FILE: Final = "file"
_MOST_BYTES: Final = 10 << 20
#: Whatever happens to the node, they stay.
_TOLERATION: Final[Obj] = {"operator": "Exists", "effect": "NoExecute"}

#: Makes a pod as Go's decoder would leave it, in place; ApiError for what cannot be one.
Normalise = Callable[[Obj], Any]


class NotAPod(ValueError):
    """Why a file is none; in a kubelet's words."""


class Found(msgspec.Struct):
    """The pods by namespace/name, and what is wrong with files, by path."""

    pods: dict[str, Obj] = msgspec.field(default_factory=dict)
    problems: dict[Path, str] = msgspec.field(default_factory=dict)


def signature(path: Path) -> Mapping[str, tuple[int, ...]]:
    """Another one whenever the files may say something else."""
    found = {}
    for file in _files(path):
        try:
            about = file.stat()
        except OSError:
            continue
        found[str(file)] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def read(path: Path, node_name: str, normalise: Normalise) -> Found:
    """A file, or those in a folder; whatever begins with a dot is left alone. A path that is missing has no pods."""
    found = Found()
    for file in _files(path):
        try:
            pod = _pod(file, node_name, normalise)
        except NotAPod as problem:
            found.problems[file] = str(problem)
            continue
        except OSError as problem:
            found.problems[file] = problem.strerror or str(problem)
            continue
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if key in found.pods:
            found.problems[file] = f"pod {key} is in a file before this one, too; this one counts"
        found.pods[key] = pod
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        if path.exists():
            yield path
        return
    yield from (Path(entry) for entry in sorted(os.scandir(path), key=lambda entry: entry.name) if entry.name[0] != ".")


def _pod(file: Path, node_name: str, normalise: Normalise) -> Obj:
    try:
        pod = _decoded(_content(file), normalise)
    except (ApiError, ValueError) as error:
        if isinstance(error, NotAPod):
            raise
        raise NotAPod(f"couldn't parse as pod({error}), please check config file") from None
    if not metadata(pod).get("name"):
        raise NotAPod("invalid pod: name is needed for the pod")
    strategy, errors = PodStrategy(), Errors()
    strategy.default(pod)
    _complete(pod, str(file), node_name)
    strategy.prepare_create(pod)
    validate_meta(pod, errors, resource=PODS)
    strategy.check_new(pod, errors)
    if errors:
        raise NotAPod(f"invalid pod: {aggregated(errors)}")
    if resource := api_reference(pod["spec"]):
        raise NotAPod(f"static pods may not reference {resource}")
    return pod


def _content(file: Path) -> bytes:
    """Without waiting for a writer, should it be a pipe."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise NotAPod("Not recursing into manifest path")
        if not stat.S_ISREG(mode):
            raise NotAPod("Manifest path is not a directory or file")
        with open(descriptor, "rb", closefd=False) as opened:
            content = opened.read(_MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > _MOST_BYTES:
        raise NotAPod(f"larger than {_MOST_BYTES} bytes")
    return content


def _decoded(content: bytes, normalise: Normalise) -> Obj:
    pod, _ = goyaml.parse(content)
    if not isinstance(pod, dict):
        raise ValueError("it holds no object")
    for name, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not isinstance(pod.get(name), str) or not pod[name]:
            raise ValueError(f"Object '{shown}' is missing")
    if (pod["apiVersion"], pod["kind"]) != (PODS.api_version, PODS.kind):
        raise ValueError(f"invalid pod: it is a {pod['kind']} of {pod['apiVersion']}")
    normalise(pod)
    return pod


def _complete(pod: Obj, source: str, node_name: str) -> None:
    """What a pod needs that no API server has made. A uid in the file counts for nothing: folders are named by ours."""
    meta, spec = metadata(pod), pod["spec"]
    pod.pop("status", None)
    for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "ownerReferences"):
        meta.pop(name, None)
    meta.pop("deletionGracePeriodSeconds", None)
    content = msgspec.json.encode([pod, f"host:{node_name}", f"file:{source}"], order="sorted")
    uid = hashlib.blake2b(content, digest_size=16).hexdigest()
    meta |= {"name": f"{meta['name']}-{node_name.lower()}", "namespace": meta.get("namespace") or "default", "uid": uid}
    meta["annotations"] = {**(meta.get("annotations") or {}), CONFIG_HASH: uid, CONFIG_SOURCE: _FILE}
    spec["nodeName"] = node_name
    tolerations = [each for each in spec.get("tolerations") or () if each != _TOLERATION]
    spec["tolerations"] = [*tolerations, dict(_TOLERATION)]

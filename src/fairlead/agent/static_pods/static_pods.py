"""The pods of files, as a collection that comes and goes like that of the API server, but needs none.

    file ─▶ pod ─▶ (file gone, or says something else) ─▶ terminating ─▶ removed by whoever runs it
             ▲                                                                      │
             └──────────────────────── (what the file says now) ────────────────────┘

What became of a pod is kept on disk, since nobody else may be there to remember it: after a restart of the agent a task
that has completed does not run again, and containers go on with their counts.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.static_pods.manifests import Normalise, read, signature
from fairlead.api.encoded import copied, encoded
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.informer import Handler
from fairlead.runtime.clock import monotonic, timestamp

#: Below the folder of the node.
FOLDER: Final = "static-pods"
#: How often it is looked whether files have changed; all are read again at `fileCheckFrequency`.
_LOOK_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, frozen=True):
    pod: Pod
    manifest: Obj


class StaticPods:
    """`path` is a file or a folder; None: there are none. `kept` is where their statuses are."""

    def __init__(
        self, path: Path | None, kept: Path, node_name: str, normalise: Normalise, check_seconds: float
    ) -> None:
        self._path, self._kept, self._node_name = path, kept, node_name
        self._normalise, self._check_seconds = normalise, check_seconds
        self._wanted: Mapping[str, Obj] = {}
        self._entries: dict[str, _Entry] = {}  # by key
        self._handlers: list[Handler[Pod]] = []
        self._versions = itertools.count(1)
        self._problems: dict[Path, str] = {}

    def __iter__(self) -> Iterator[Pod]:
        return iter([entry.pod for entry in self._entries.values()])

    def get(self, key: str) -> Pod | None:
        return entry.pod if (entry := self._entries.get(key)) is not None else None

    def is_here(self, pod: Pod) -> bool:
        return (known := self.get(pod.metadata.key)) is not None and known.metadata.uid == pod.metadata.uid

    def manifest(self, pod: Pod) -> Obj:
        """With its status. NotFound if it is gone."""
        manifest: Obj = copied(self._entry(pod).manifest)
        return manifest

    def subscribe(self, handler: Handler[Pod]) -> None:
        """As an informer's."""
        self._handlers.append(handler)
        for pod in self:
            handler(None, pod)

    async def look(self) -> None:
        """Read the files."""
        if self._path is None:
            return
        try:
            found = await asyncio.to_thread(read, self._path, self._node_name, self._normalise)
        except OSError as error:  # what runs goes on, until somebody can say that it is not wanted
            log.warning("static pods cannot be read: %s", error)
            return
        for file, problem in found.problems.items():
            if self._problems.get(file) != problem:  # once, however often it is read
                log.warning("static pods: %s: %s", file, problem)
        self._problems, self._wanted = found.problems, found.pods
        await asyncio.to_thread(self._forget_others)
        for key in {*self._wanted, *self._entries}:
            self._settle(key)

    async def run(self) -> None:
        """Look whenever files change, and now and then when they seem not to; until cancelled."""
        if self._path is None:
            return
        seen: object = None
        looked_at = monotonic()
        while True:
            try:
                now_there = await asyncio.to_thread(signature, self._path)
            except OSError as error:
                now_there = {str(error): ()}
            if now_there != seen or monotonic() - looked_at >= self._check_seconds:
                seen, looked_at = now_there, monotonic()
                await self.look()
            await asyncio.sleep(min(_LOOK_SECONDS, self._check_seconds))

    def report(self, pod: Pod, status: Obj) -> Obj:
        """Keep what has become of it; returns the pod with that. NotFound if it is gone."""
        manifest = {**self._entry(pod).manifest, "status": status}
        self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = self._kept / f"{pod.metadata.uid}.new"
        scratch.write_bytes(msgspec.json.encode(status))
        scratch.replace(self._file(pod.metadata.uid))
        return self._put(pod.metadata.key, manifest)

    def remove(self, pod: Pod) -> None:
        """Nothing of it runs any more. If its file says something else by now, that comes in its place."""
        if not self.is_here(pod):
            return
        del self._entries[pod.metadata.key]
        self._file(pod.metadata.uid).unlink(missing_ok=True)
        self._tell(pod, None)
        self._settle(pod.metadata.key)

    def _settle(self, key: str) -> None:
        """Towards what the files say."""
        entry, wanted = self._entries.get(key), self._wanted.get(key)
        if entry is None:
            if wanted is not None:
                self._put(key, {**wanted, "status": self._remembered(wanted)})
            return
        is_same = wanted is not None and wanted["metadata"]["uid"] == entry.pod.metadata.uid
        if not is_same and entry.pod.metadata.deletion_timestamp is None:
            seconds = entry.manifest["spec"]["terminationGracePeriodSeconds"]
            ending = {"deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": seconds}
            self._put(key, {**entry.manifest, "metadata": {**entry.manifest["metadata"], **ending}})

    def _put(self, key: str, manifest: Obj) -> Obj:
        versioned = {**manifest["metadata"], "resourceVersion": f"static-{next(self._versions)}"}
        manifest = {**manifest, "metadata": versioned}
        old, new = self.get(key), encoded(manifest).view(Pod)
        self._entries[key] = _Entry(new, manifest)
        self._tell(old, new)
        return manifest

    def _tell(self, old: Pod | None, new: Pod | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _entry(self, pod: Pod) -> _Entry:
        if not self.is_here(pod):
            raise NotFound(f"static pod {pod.metadata.key} is gone")
        return self._entries[pod.metadata.key]

    # -- what is kept

    def _file(self, uid: str) -> Path:
        return self._kept / f"{uid}.json"

    def _remembered(self, wanted: Obj) -> Obj:
        try:
            status: Obj = msgspec.json.decode(self._file(wanted["metadata"]["uid"]).read_bytes(), type=dict)
        except (FileNotFoundError, msgspec.DecodeError):
            return dict(wanted["status"])
        return status

    def _forget_others(self) -> None:
        uids = {pod["metadata"]["uid"] for pod in self._wanted.values()} | {pod.metadata.uid for pod in self}
        for file in self._kept.glob("*.json"):
            if file.stem not in uids:
                file.unlink(missing_ok=True)

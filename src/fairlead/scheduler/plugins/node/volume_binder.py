"""Gives the claims of a pod their volumes, once the pod has its node: what VolumeBinding does at PreBind.

Sources: BindPodVolumes of pkg/scheduler/framework/plugins/volumebinding/binder.go. A volume that is
there is kept for its claim; for one that is to be made, the claim is told the node (by an annotation), which is what
provisioners wait for. The rest is the PersistentVolume controller's, and waited for: not by asking every second, as
upstream does, but by what the informers tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import numpy as np

from fairlead.api.binding import SELECTED_NODE, keeping
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.api.guards import guarded
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.scheduling import Pod
from fairlead.runtime.turns import in_turns
from fairlead.scheduler.facts.volumes import ClaimPlan
from fairlead.scheduler.framework import Handle, PluginError
from fairlead.scheduler.plugins.node.volume_choice import reached_from


class NotBound(PluginError):
    """The pod's claims did not get their volumes; says why."""


class _Written(msgspec.Struct):
    """The versions that our own writes have made: what is older says nothing of them."""

    volumes: dict[str, int] = msgspec.field(default_factory=dict)
    claims: dict[str, int] = msgspec.field(default_factory=dict)


class VolumeBinder:
    """Carries out what is planned for the claims of a pod."""

    def __init__(self, handle: Handle) -> None:
        self._api, self._snapshot, self._pod = handle.api, handle.snapshot, handle.pod
        self._volumes = handle.snapshot.volumes

    async def bind(self, pod: Pod, plan: ClaimPlan, timeout_seconds: int) -> None:
        """Return once the pod's claims have their volumes. Raises NotBound, ApiError or OSError."""
        written = await self._write(plan)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._wait(pod, plan, self._checks(plan, written))
        except TimeoutError:
            raise NotBound("binding volumes: context deadline exceeded") from None
        except NotBound as why:
            raise NotBound(f"binding volumes: {why}") from None

    async def _write(self, plan: ClaimPlan) -> _Written:
        written = _Written()
        async for claim, volume in in_turns(plan.bindings):
            if (patch := keeping(volume, claim)) is not None:
                version = await self._patch(PERSISTENT_VOLUMES, volume, patch)
                written.volumes[volume.metadata.name] = version
        async for claim in in_turns(plan.provisions):
            if claim.metadata.annotations.get(SELECTED_NODE) != plan.node:
                patch = {"metadata": {"annotations": {SELECTED_NODE: plan.node}}}
                written.claims[claim.metadata.key] = await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, patch)
        return written

    async def _patch(self, resource: Resource, target: Object, patch: Obj) -> int:
        """Change exactly the version that was decided on; returns the new version."""
        meta = target.metadata
        done = await self._api.patch(resource, meta.name, meta.namespace, guarded(patch, meta, unchanged=True))
        return _version(done.view(Object))

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def _wait(self, pod: Pod, plan: ClaimPlan, checks: Sequence[Callable[[], bool]]) -> None:
        """Return once the checks hold. Raises NotBound where they never will.

        They come true one by one, so each look begins where the last one ended; all of them are looked at once more at
        the end, for a volume may have gone meanwhile.
        """
        done = 0
        while True:
            self._check_is_there(pod)
            while done < len(checks) and checks[done]():
                done += 1
            if done == len(checks):
                if all(check() for check in checks):
                    return
                done = 0
            plan.changed.clear()
            await plan.changed.wait()

    def _checks(self, plan: ClaimPlan, written: _Written) -> list[Callable[[], bool]]:
        """Whether each of the claims has its volume (checkBindings)."""
        return [
            *(partial(self._has_volume, plan, claim, volume, written) for claim, volume in plan.bindings),
            *(partial(self._is_made, plan, claim, written) for claim in plan.provisions),
        ]

    def _check_is_there(self, pod: Pod) -> None:
        current = self._pod(pod.metadata.key)
        if current is None or current.metadata.uid != pod.metadata.uid:
            raise NotBound(f'pod does not exist any more: pod "{pod.metadata.name}" not found')

    def _has_volume(
        self, plan: ClaimPlan, claim: PersistentVolumeClaim, volume: PersistentVolume, written: _Written
    ) -> bool:
        name = volume.metadata.name
        known = self._volumes.volumes.get(name)
        if known is None:
            raise NotBound(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
        current = self._claim(claim, "binding")
        if _version(known) < written.volumes.get(name, 0):
            return False
        self._check_reach(plan, known)
        if known.spec.claim_ref is None or not known.spec.claim_ref.uid:
            raise NotBound(f'ClaimRef got reset for pv "{name}"')
        return current.is_bound

    def _is_made(self, plan: ClaimPlan, claim: PersistentVolumeClaim, written: _Written) -> bool:
        current = self._claim(claim, "provisioning pvc")
        if _version(current) < written.claims.get(claim.metadata.key, 0):
            return False
        if current.metadata.annotations.get(SELECTED_NODE) != plan.node:
            raise NotBound(f'provisioning failed for PVC "{claim.metadata.name}"')
        if current.spec.volume_name:
            volume = self._volumes.volumes.get(current.spec.volume_name)
            if volume is None:
                return False
            self._check_reach(plan, volume)
        return current.is_bound

    def _claim(self, claim: PersistentVolumeClaim, what: str) -> PersistentVolumeClaim:
        current = self._volumes.claims.get(claim.metadata.key)
        if current is None or current.metadata.uid != claim.metadata.uid:
            missing = f'could not find v1.PersistentVolumeClaim "{claim.metadata.key}"'
            raise NotBound(f"failed to check {what}: {missing}")
        return current

    def _check_reach(self, plan: ClaimPlan, volume: PersistentVolume) -> None:
        row = self._snapshot.row_of(plan.node)
        if row is None:
            raise NotBound(f'failed to get node "{plan.node}": node "{plan.node}" not found')
        if not reached_from(volume, self._snapshot, np.array([row], dtype=np.intp))[0]:
            name = volume.metadata.name
            raise NotBound(
                f'pv "{name}" node affinity doesn\'t match node "{plan.node}": no matching NodeSelectorTerms'
            )


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version)

"""What is in the volumes whose content comes from the API, as files by their path in the volume."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.agent.pods.downward import DownwardApi
from fairlead.agent.pods.sources import Sources
from fairlead.agent.volumes.claimed import Claimed, Claims
from fairlead.agent.volumes.payload import Owner, PayloadFile
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod


class PodContent(msgspec.Struct, frozen=True):
    pod: Pod
    manifest: Obj
    sources: Sources
    downward: DownwardApi
    owner: Owner
    claims: Claims

    async def claimed(self, volume: Obj) -> Claimed | None:
        """Where a volume of a claim, or of a driver, is; None for others."""
        return await self.claims.volume(self.manifest, volume)

    @property
    def only_on_mismatch(self) -> bool:
        security = self.manifest["spec"].get("securityContext") or {}
        return bool(security.get("fsGroupChangePolicy") == "OnRootMismatch")

    async def files(self, volume: Obj) -> Mapping[str, PayloadFile] | None:
        """None for a volume whose content is the pods' own."""
        for kind in ("configMap", "secret", "downwardAPI"):
            if (source := volume.get(kind)) is not None:
                return await self._of(kind, source, source.get("defaultMode", 0o644))
        projected = volume.get("projected")
        if projected is None:
            return None
        found: dict[str, PayloadFile] = {}
        for projection in projected.get("sources") or ():
            for kind, source in projection.items():
                found |= await self._of(kind, source, projected.get("defaultMode", 0o644))
        return found

    async def _of(self, kind: str, source: Obj, mode: int) -> dict[str, PayloadFile]:
        if kind == "serviceAccountToken":
            account = self.manifest["spec"].get("serviceAccountName") or "default"
            token = await self.sources.token(self.pod.metadata, account, source)
            return {source["path"]: PayloadFile(token.text.encode(), mode if self.owner == Owner() else 0o600)}
        if kind == "downwardAPI":
            return {
                item["path"]: PayloadFile(self._described(item).encode(), item.get("mode", mode))
                for item in source.get("items") or ()
            }
        return await self._of_source("ConfigMap" if kind == "configMap" else "Secret", source, mode)

    async def _of_source(self, kind: str, source: Obj, mode: int) -> dict[str, PayloadFile]:
        name, is_optional = source.get("name") or source.get("secretName") or "", bool(source.get("optional"))
        data = await self.sources.read(kind, self.pod.metadata.namespace, name)
        if data is None:
            if is_optional:
                return {}
            raise VolumeProblem(f'{kind.lower()} "{name}" not found')
        if not source.get("items"):
            return {key: PayloadFile(value, mode) for key, value in data.items()}
        found: dict[str, PayloadFile] = {}
        for item in source["items"]:
            if item["key"] in data:
                found[item["path"]] = PayloadFile(data[item["key"]], item.get("mode", mode))
            elif not is_optional:
                what = (
                    "configmap references non-existent config"
                    if kind == "ConfigMap"
                    else ("references non-existent secret")
                )
                raise VolumeProblem(f"{what} key: {item['key']}")
        return found

    def _described(self, item: Obj) -> str:
        if (field := item.get("fieldRef")) is not None:
            return self.downward.field(field["fieldPath"])
        reference = item["resourceFieldRef"]
        spec = self.manifest["spec"]
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        container = next(each for each in containers if each["name"] == reference["containerName"])
        return self.downward.resource(reference, container)

"""For whom a node may ask for tokens: those for whom its pod has volumes with such tokens.

Anybody else takes the verb `request-serviceaccounts-token-audience` on a resource that is called as the audience.
Source: plugin/pkg/admission/noderestriction, ServiceAccountNodeAudienceRestriction (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.golang.quoting import go_quote
from fairlead.kinds.object_references import claim_name
from fairlead.server.access import AccessRequest, Authorizer
from fairlead.server.admission.base import Attributes, Reader

_VERB: Final = "request-serviceaccounts-token-audience"
#: The drivers of volumes that Kubernetes once mounted itself.
_MIGRATED: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}


async def check_audience(reader: Reader, authorizer: Authorizer, attributes: Attributes, pod: Obj) -> None:
    """`Forbidden` unless the node may ask for a token of that pod for that audience."""
    audiences = attributes.spec.get("audiences") or [""]
    if len(audiences) > 1:
        raise attributes.forbidden("node may only request 0 or 1 audiences")
    audience, who = audiences[0], attributes.user
    missing: list[str] = []
    if _is_referenced(reader, pod, audience, missing):
        return
    if told := list(dict.fromkeys(missing)):
        errors = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        raise attributes.forbidden(f"error validating audience {go_quote(audience)}: {errors}")
    request = AccessRequest(who, _VERB, "", "v1", audience, "", attributes.namespace, attributes.name)
    verdict = await authorizer.authorize(request)
    if verdict.is_allowed:
        return
    absent = f"audience {go_quote(audience)} not found in pod spec volume"
    if verdict.error:
        why = f"error authorizing {who.name} to request tokens for this audience: {verdict.error}"
        raise attributes.forbidden(f"{absent}, {why}")
    raise attributes.forbidden(f"{absent}, {who.name} is not authorized to request tokens for this audience")


def _is_referenced(reader: Reader, pod: Obj, audience: str, missing: list[str]) -> bool:
    """Whether a volume of the pod has a token for the audience; what cannot be looked up is added to `missing`."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            token = source.get("serviceAccountToken")
            if token is not None and token.get("audience", "") == audience:
                return True
        try:
            driver = _driver_of(reader, pod, volume)
            if driver and audience in _audiences_of(reader, driver):
                return True
        except NotFound as error:
            missing.append(str(error))
    return False


def _driver_of(reader: Reader, pod: Obj, volume: Obj) -> str:
    """The CSI driver behind a volume; "" if there is none."""
    if not (claim := claim_name(metadata(pod)["name"], volume)):
        return _driver_named_in(volume)
    found = reader.find("persistentvolumeclaims", claim, metadata(pod)["namespace"])
    if found is None:
        raise NotFound.of("persistentvolumeclaim", claim)
    name = found.obj()["spec"].get("volumeName", "")
    bound = reader.find("persistentvolumes", name)
    if bound is None:
        raise NotFound.of("persistentvolume", name)
    return _driver_named_in(bound.obj()["spec"])


def _driver_named_in(sources: Obj) -> str:
    csi = sources.get("csi")
    if csi is not None:
        return str(csi.get("driver", ""))
    return next((driver for source, driver in _MIGRATED.items() if sources.get(source) is not None), "")


def _audiences_of(reader: Reader, driver: str) -> list[str]:
    """For whom a CSI driver wants tokens."""
    found = reader.find("csidrivers.storage.k8s.io", driver)
    if found is None:
        raise NotFound.of("csidriver", driver, "storage.k8s.io")
    return [request.get("audience", "") for request in found.obj()["spec"].get("tokenRequests") or ()]

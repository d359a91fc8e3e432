"""The certificate authority of the API server, for every namespace: what pods verify their server by.

Source: pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead.api.configmaps import ROOT_CERTIFICATES, ConfigMap
from fairlead.api.errors import ApiError, NotFound, is_namespace_terminating
from fairlead.api.namespaces import Namespace
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Actions, Create, Patch
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CONFIG_MAPS, NAMESPACES

_KEY: Final = "ca.crt"
_ABOUT: Final = "kubernetes.io/description"
_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def _namespace_of(world: World, old: ConfigMap | None, new: ConfigMap | None) -> Iterator[str]:
    """Whoever changes or deletes it; that it was made is no news."""
    if old is not None and old.metadata.name == ROOT_CERTIFICATES:
        yield old.metadata.namespace


class RootCertificates(Controller[Namespace]):
    name = "root-ca-certificate-publisher-controller"
    queue_name = "root_ca_cert_publisher"
    account = "root-ca-cert-publisher"
    kind = NAMESPACES
    watches = (Watch(CONFIG_MAPS, _namespace_of),)

    def __init__(self, ca: str) -> None:
        self._data = {_KEY: ca}

    def reconcile(self, obj: Namespace, world: World) -> Actions:
        namespace = obj.metadata.name
        if obj.metadata.is_terminating:
            return
        found = world.get(CONFIG_MAPS, f"{namespace}/{ROOT_CERTIFICATES}")
        if found is None:
            yield from self._create(namespace)
            return
        data = found.data
        if data != self._data or not found.metadata.annotations.get(_ABOUT):
            others = {key: None for key in data if key != _KEY}
            yield Patch(CONFIG_MAPS, found, {"metadata": {"annotations": {_ABOUT: _TEXT}}, "data": others | self._data})

    def _create(self, namespace: str) -> Actions:
        meta: Obj = {"name": ROOT_CERTIFICATES, "namespace": namespace, "annotations": {_ABOUT: _TEXT}}
        try:
            yield Create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": self._data})
        except NotFound:
            return
        except ApiError as error:
            if not is_namespace_terminating(error):
                raise

"""DefaultIngressClass: an ingress that names no class gets the default one, of several the youngest.

Source: plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Object
from fairlead.api.objects import metadata
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes

_CLASSES: Final = "ingressclasses.networking.k8s.io"
_IS_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"
#: How an ingress named its class before there was a field for it.
_OLD_CLASS: Final = "kubernetes.io/ingress.class"


class DefaultIngressClass(AdmissionPlugin):
    name = "DefaultIngressClass"
    resources = frozenset({"ingresses.networking.k8s.io"})
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        annotations = metadata(attributes.obj).get("annotations") or {}
        if "ingressClassName" in attributes.spec or _OLD_CLASS in annotations:
            return
        classes = (entry.kept_view(Object).metadata for entry in self._reader.each(_CLASSES))
        defaults = [found for found in classes if found.annotations.get(_IS_DEFAULT) == "true"]
        # in the order of their names, of which the first is taken where several are equally young
        if youngest := max(defaults, key=lambda found: found.creation_timestamp, default=None):
            attributes.spec["ingressClassName"] = youngest.name

"""NamespaceLifecycle: nothing is created in a namespace that is missing or being deleted.

Without it a namespace could never be emptied: its controller would delete objects while others still create them.
Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

from fairlead.api.errors import Cause, Forbidden, NotFound
from fairlead.api.meta import View
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation

#: Namespaces that must not be deleted. (kube-node-lease is not among them, see the source.)
IMMORTAL = frozenset({"default", "kube-system", "kube-public"})

#: Access reviews must not reveal whether a namespace exists.
_ACCESS_REVIEW = "localsubjectaccessreviews.authorization.k8s.io"


class _NamespaceStatus(View):
    phase: str = ""


class _Namespace(View):
    status: _NamespaceStatus = _NamespaceStatus()


class NamespaceLifecycle(AdmissionPlugin):
    name = "NamespaceLifecycle"

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        if resource == "namespaces":
            return operation is Operation.DELETE
        return operation is Operation.CREATE and resource != _ACCESS_REVIEW

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE:
            self._refuse_to_delete_the_immortal(attributes)
        elif attributes.namespace:
            self._require_a_living_namespace(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Once more: a large object takes seconds to judge, and an empty namespace is gone at once."""
        if attributes.operation is Operation.CREATE and attributes.namespace:
            self._require_a_living_namespace(attributes)

    def _refuse_to_delete_the_immortal(self, attributes: Attributes) -> None:
        if attributes.name in IMMORTAL:
            raise Forbidden.of("namespaces", attributes.name, "this namespace may not be deleted")

    def _require_a_living_namespace(self, attributes: Attributes) -> None:
        namespace = attributes.namespace
        found = self._reader.find("namespaces", namespace)
        if found is None:
            raise NotFound.of("namespaces", namespace)
        if found.kept_view(_Namespace).status.phase == "Terminating":
            raise attributes.forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated",
                Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),
            )

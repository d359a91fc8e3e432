"""Which subresources have behaviour, and what it is: one table of endpoints, one of actions.

An *endpoint* shows and changes an object in another form than its own (`endpoint.py`); an *action* is a POST that does
something to it and answers with a Status (`action.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds import certificates
from fairlead.kinds.meta import validate_meta_update
from fairlead.kinds.namespaces import finalized, validate_finalize
from fairlead.kinds.pods import SUBRESOURCES, PodSubresource
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.subresources.access_reviews import access_review, rules_review
from fairlead.server.subresources.action import Action
from fairlead.server.subresources.endpoint import STATUS, Endpoint
from fairlead.server.subresources.pods import bind, evict_pod
from fairlead.server.subresources.reviews import subject_review
from fairlead.server.subresources.scale import ScaleEndpoint
from fairlead.server.subresources.tokens import request_token, token_review


class FinalizeEndpoint(Endpoint):
    """`namespaces/finalize`: writes spec.finalizers alone."""

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        metadata_rules.keep_system_fields(served, metadata(sent), metadata(old))
        return finalized(sent, old)

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource)
        validate_finalize(new, errors)


class ApprovalEndpoint(Endpoint):
    """`certificatesigningrequests/approval`: writes the conditions alone, the verdict among them."""

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        metadata_rules.keep_system_fields(served, metadata(sent), metadata(old))
        return certificates.approved(sent, old)

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        certificates.validate_approval(new, old, errors)
        validate_meta_update(new, old, errors, resource=served.resource)


class PodEndpoint(Endpoint):
    """`pods/resize`, `pods/ephemeralcontainers`: a part of a pod, under rules of its own."""

    def __init__(self, rules: PodSubresource) -> None:
        self._rules = rules

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        metadata_rules.keep_system_fields(served, metadata(sent), metadata(old))
        self._rules.prepare(sent, old)
        self.count_generation(served, sent, old)
        return sent

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource)
        self._rules.validate(new, old, errors)


ENDPOINTS: Mapping[tuple[str, str], Endpoint] = {
    ("*", "status"): STATUS,
    ("*", "scale"): ScaleEndpoint(),
    ("namespaces", "finalize"): FinalizeEndpoint(),
    ("certificatesigningrequests.certificates.k8s.io", "approval"): ApprovalEndpoint(),
    **{("pods", name): PodEndpoint(rules) for name, rules in SUBRESOURCES.items()},
}
ACTIONS: Mapping[tuple[str, str], Action] = {
    ("pods", "binding"): bind,
    ("bindings", ""): bind,
    ("pods", "eviction"): evict_pod,
    ("serviceaccounts", "token"): request_token,
    ("selfsubjectreviews.authentication.k8s.io", ""): subject_review,
    ("tokenreviews.authentication.k8s.io", ""): token_review,
    ("localsubjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("selfsubjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("subjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("selfsubjectrulesreviews.authorization.k8s.io", ""): rules_review,
}

"""ImagePolicyWebhook: a service says whether the images of a pod may be used. Off by default.

It is told the images, and of the pod's annotations those that are meant for it. What it says counts for a while when
the same is asked. Source: plugin/pkg/admission/imagepolicy/admission.go (1.36).
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

from fairlead.api.encoded import encode
from fairlead.api.meta import View
from fairlead.api.objects import Obj, metadata
from fairlead.caches import LruCache
from fairlead.client.calls import CallError
from fairlead.client.kubeconfig_service import SECONDS
from fairlead.client.reviews import ReviewService
from fairlead.client.webhooks import is_callable
from fairlead.runtime.clock import monotonic
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies
from fairlead.server.metrics.requests import waiting

_API_VERSION: Final = "imagepolicy.k8s.io/v1alpha1"
_FOR_SERVICE: Final = ".image-policy.k8s.io/"
_AUDIT: Final = "imagepolicywebhook.image-policy.k8s.io/"
_EPHEMERAL: Final = "ephemeralcontainers"
_MOST_REMEMBERED: Final = 1024
#: A longer answer is not remembered.
_LONGEST_ANSWER: Final = 4096

log = logging.getLogger(__name__)


class _Status(View):
    allowed: bool = False
    reason: str = ""
    audit_annotations: dict[str, str] | None = None

    @property
    def size(self) -> int:
        """How many characters of the service it has."""
        annotations = self.audit_annotations or {}
        return len(self.reason) + sum(len(key) + len(value) for key, value in annotations.items())


class ImagePolicyWebhook(AdmissionPlugin):
    name = "ImagePolicyWebhook"
    resources = frozenset({"pods"})
    subresources = frozenset({"", _EPHEMERAL})

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        policy = dependencies.configuration.image_policy
        assert policy is not None  # check_choice
        self._policy, self._service = policy, ReviewService(policy.kubeconfig, SECONDS, policy.retry_seconds)
        #: By what was asked: what was said, and until when that counts.
        self._known: LruCache[bytes, tuple[_Status, float]] = LruCache(_MOST_REMEMBERED)

    async def close(self) -> None:
        await self._service.close()

    async def validate(self, attributes: Attributes) -> None:
        if not is_callable():
            attributes.warnings.append(f"{self.name} asks nobody in virtual time")
            return
        try:
            status = await self._status(_question(attributes))
        except CallError as error:
            if not self._policy.allows_by_default:
                raise attributes.forbidden(str(error)) from None
            log.warning("a pod was let in though nobody could be asked about its images: %s", error)
            attributes.annotate(f"{_AUDIT}failed-open", "true")
            return
        for key, value in (status.audit_annotations or {}).items():
            attributes.annotate(f"{_AUDIT}{key}", value)
        if not status.allowed:
            denied = f"image policy webhook backend denied one or more images: {status.reason}"
            raise attributes.forbidden(denied if status.reason else "one or more images rejected by webhook backend")

    async def _status(self, question: Obj) -> _Status:
        key = hashlib.sha256(encode(question)).digest()
        known = self._known.get(key)
        if known is not None and monotonic() < known[1]:
            return known[0]
        with waiting():
            status = await self._service.review("ImageReview", _API_VERSION, question, {"allowed": False}, _Status)
        seconds = self._policy.allow_seconds if status.allowed else self._policy.deny_seconds
        if seconds > 0 and status.size <= _LONGEST_ANSWER:
            self._known.put(key, (status, monotonic() + seconds))
        return status


def _question(attributes: Attributes) -> Obj:
    """What the service is asked: of who adds ephemeral containers about those alone."""
    kinds = ("ephemeralContainers",) if attributes.subresource == _EPHEMERAL else ("containers", "initContainers")
    containers = [container for kind in kinds for container in attributes.spec.get(kind) or ()]
    annotations = metadata(attributes.obj).get("annotations") or {}
    question: Obj = {
        "containers": [{"image": image} if (image := each.get("image")) else {} for each in containers],
        "annotations": {key: value for key, value in annotations.items() if _FOR_SERVICE in key},
        "namespace": attributes.namespace,
    }
    return {key: value for key, value in question.items() if value}

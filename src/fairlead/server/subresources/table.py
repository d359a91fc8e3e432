"""Which subresources have behaviour, and what it is: one table of views, one of actions.

A *view* shows and changes an object in another form than its own (`views.py`); an *action* is a POST that does
something to it and answers with a Status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.api.builtin import PODS
from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.verbs import DeleteOptions
from fairlead.kinds import certificates
from fairlead.kinds.meta import validate_meta_update
from fairlead.kinds.namespaces import finalized, validate_finalize
from fairlead.kinds.pods import SUBRESOURCES, PodSubresource, assign, check_binding
from fairlead.kinds.scale import scale_of, scaled, validate_scale
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.apply.managers import Writer
from fairlead.server.apply.scale import SCALE_DEFINITION, ReplicaPaths, to_object, to_scale
from fairlead.server.apply.writers import scale_writer_of
from fairlead.server.codec.body_types import target_of
from fairlead.server.codec.versions import Normalise, Version
from fairlead.server.context import Write
from fairlead.server.crds.custom import CustomStrategy
from fairlead.server.crds.paths import keys_of
from fairlead.server.crds.scale import Scale
from fairlead.server.storage import metadata_rules as writing
from fairlead.server.storage.catalogue import Served
from fairlead.server.subresources.endpoint import STATUS, View
from fairlead.server.subresources.eviction import evict
from fairlead.server.subresources.reviews import access_review, rules_review, subject_review, token_review

if TYPE_CHECKING:
    from fairlead.server.registry.registry import Action, Registry


class FinalizeView(View):
    """`namespaces/finalize`: writes spec.finalizers alone."""

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        writing.carry_over(served, sent, old)
        return finalized(sent, old)

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource)
        validate_finalize(new, errors)


class ApprovalView(View):
    """`certificatesigningrequests/approval`: writes the conditions alone, the verdict among them."""

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        writing.carry_over(served, sent, old)
        return certificates.approved(sent, old)

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        certificates.validate_approval(new, old, errors)
        validate_meta_update(new, old, errors, resource=served.resource)


class PodView(View):
    """`pods/resize`, `pods/ephemeralcontainers`: a part of a pod, under rules of its own."""

    def __init__(self, rules: PodSubresource) -> None:
        self._rules = rules

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        writing.carry_over(served, sent, old)
        self._rules.prepare(sent, old)
        self.count_generation(served, sent, old)
        return sent

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource)
        self._rules.validate(new, old, errors)


class ScaleView(View):
    """`scale`: the number of replicas, as an `autoscaling/v1` Scale."""

    is_whole = False

    def normalise(self, version: Version) -> Normalise:
        return target_of(version.resource, "scale").normalise

    def definition(self, version: Version) -> str:
        return SCALE_DEFINITION

    def kind(self, version: Version) -> str:
        return "Scale"

    def writer(self, served: Served, write: Write) -> Writer:
        return scale_writer_of(write)

    def default(self, served: Served, sent: Obj) -> None:
        """A Scale has no defaults."""

    def edited(self, served: Served, obj: Obj) -> Obj:
        scale = self.shown(served, obj)
        if owners := to_scale(metadata(obj).get("managedFields"), _replicas(served)):
            metadata(scale)["managedFields"] = owners
        return scale

    def shown(self, served: Served, obj: Obj) -> Obj:
        if isinstance(served.strategy, CustomStrategy):
            return _custom_scale(served.strategy, obj).read(obj)
        return scale_of(obj)

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        errors = Errors()
        validate_scale(sent, errors)
        errors.raise_invalid("Scale", name_of(old), "autoscaling")
        if isinstance(served.strategy, CustomStrategy):
            new = encoded(old).obj()
            _custom_scale(served.strategy, old).write(new, sent)
        else:
            new = scaled(old, sent)
        new["metadata"] = meta = dict(metadata(old))
        owners = to_object(
            meta.pop("managedFields", None), metadata(sent).get("managedFields"), _replicas(served), old["apiVersion"]
        )
        if owners:
            meta["managedFields"] = owners
        self.count_generation(served, new, old)
        return new


def _replicas(served: Served) -> ReplicaPaths:
    """Where the replicas of a kind are, in each of its versions."""
    if not isinstance(served.strategy, CustomStrategy):
        return {served.resource.api_version: ("f:spec", "f:replicas")}
    return {
        version: tuple(f"f:{key}" for key in keys_of(schema.scale.spec_path)) if schema.scale else None
        for version, schema in served.strategy.versions.items()
    }


def _custom_scale(strategy: CustomStrategy, obj: Obj) -> Scale:
    scale = strategy.of(obj).scale
    if scale is None:
        raise NotFound("the server could not find the requested resource")
    return scale


async def bind(registry: Registry, served: Served, namespace: str, name: str, binding: Obj, write: Write) -> Encoded:
    """`pods/NAME/binding`, and the old `POST bindings`, which names the pod in the body alone."""
    _understand(served, namespace, binding, write)
    name = name or name_of(binding)
    check_binding(binding, name)
    attributes = await _admitted(registry, namespace, name, binding, "binding", write)

    pods, _ = registry.catalogue.of(PODS)

    def change(pod: Obj) -> Obj:
        writing.check_is_meant(pods, attributes.obj, pod)
        assign(pod, attributes.obj)
        return pod

    if await registry.guaranteed_update("pods", name, namespace, change, dry_run=write.options.dry_run) is None:
        raise NotFound.of("pods", name)
    return encoded(_SUCCESS)


async def evict_pod(registry: Registry, served: Served, namespace: str, name: str, body: Obj, write: Write) -> Encoded:
    """`pods/NAME/eviction`."""
    _understand(served, namespace, body, write)
    await _admitted(registry, namespace, name, body, "eviction", write)

    async def delete(pod: str, space: str, options: DeleteOptions) -> object:
        return await registry.delete(PODS, pod, space, options, write.caller)

    return encoded(await evict(registry, registry, delete, namespace, name, body, dry_run=write.options.dry_run))


def _understand(served: Served, namespace: str, body: Obj, write: Write) -> None:
    """Make the body normal; its types are right after that, and it means what the path says."""
    target = target_of(write.version.resource, write.subresource)
    write.judge(target.normalise(body), target.kind, target.version)
    writing.place(served, body, namespace)


async def _admitted(
    registry: Registry, namespace: str, name: str, body: Obj, subresource: str, write: Write
) -> Attributes:
    attributes = Attributes(
        Operation.CREATE, PODS, namespace, name, body, None, subresource, write.options.dry_run, write.caller.user
    )
    await registry.admission.admit(attributes)
    await registry.admission.validate(attributes)
    return attributes


_SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

VIEWS: Mapping[tuple[str, str], View] = {
    ("*", "status"): STATUS,
    ("*", "scale"): ScaleView(),
    ("namespaces", "finalize"): FinalizeView(),
    ("certificatesigningrequests.certificates.k8s.io", "approval"): ApprovalView(),
    **{("pods", name): PodView(rules) for name, rules in SUBRESOURCES.items()},
}
ACTIONS: Mapping[tuple[str, str], Action] = {
    ("pods", "binding"): bind,
    ("bindings", ""): bind,
    ("pods", "eviction"): evict_pod,
    ("selfsubjectreviews.authentication.k8s.io", ""): subject_review,
    ("tokenreviews.authentication.k8s.io", ""): token_review,
    ("localsubjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("selfsubjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("subjectaccessreviews.authorization.k8s.io", ""): access_review,
    ("selfsubjectrulesreviews.authorization.k8s.io", ""): rules_review,
}

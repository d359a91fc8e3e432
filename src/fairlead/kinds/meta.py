"""The rules of `metadata`, which are the same for every kind but for the form of the name.

Without one place for them each kind would check names, labels and owners a little differently, and clients that
learned a text from one kind would not know it from the next. Rules, texts and their order are those of
k8s.io/apimachinery/pkg/api/validation/objectmeta.go (1.36). Of custom resources (rows without an OpenAPI definition)
finalizers may have any qualified name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import validate_labels
from fairlead.golang.quoting import go_quote
from fairlead.kinds.ips import ip_address_name
from fairlead.kinds.strategy import MetaCheck

#: How the objects of a kind may be called; `dns1123_subdomain` where a kind is not listed.
NAME_RULES: Final[Mapping[str, names.Rule]] = {
    "namespaces": names.dns1123_label,
    "services": names.dns1123_label,  # RelaxedServiceNameValidation is on since 1.36
    "statefulsets.apps": names.dns1123_label,
    "ipaddresses.networking.k8s.io": ip_address_name,
    "leasecandidates.coordination.k8s.io": names.config_map_key,
    # These kinds leave their names to the generic rule.
    "events": names.path_segment_name,
    "events.events.k8s.io": names.path_segment_name,
    "poddisruptionbudgets.policy": names.path_segment_name,
    "certificatesigningrequests.certificates.k8s.io": names.path_segment_name,
    "roles.rbac.authorization.k8s.io": names.path_segment_name,
    "rolebindings.rbac.authorization.k8s.io": names.path_segment_name,
    "clusterroles.rbac.authorization.k8s.io": names.path_segment_name,
    "clusterrolebindings.rbac.authorization.k8s.io": names.path_segment_name,
    "apiservices.apiregistration.k8s.io": names.path_segment_name,
}

#: Kinds of which only the name that came of it says what is wrong with `generateName` (ValidateObjectMetaWithOpts).
_NAMED_ONCE: Final = frozenset({"replicationcontrollers"})
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_IMMUTABLE: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_MANAGER_MAX: Final = 128
_SUBRESOURCE_MAX: Final = 256


def name_rule(qualified: str) -> names.Rule:
    """The rule for the names of a kind, by `Resource.qualified`."""
    return NAME_RULES.get(qualified, names.dns1123_subdomain)


def validate_meta(obj: Obj, errors: Errors, *, resource: Resource, rule: names.Rule | None = None) -> None:
    """The metadata of a new object, after its name was generated."""
    _validate_whole(obj, errors, resource, rule or name_rule(resource.qualified))
    if resource.definition:
        _validate_finalizer_names(metadata(obj).get("finalizers") or (), errors)


def validate_meta_update(
    obj: Obj, old: Obj, errors: Errors, *, resource: Resource, again: Iterable[MetaCheck] = (MetaCheck.CHANGE,)
) -> None:
    """Validate a change of metadata.

    Upstream asks in `rest.BeforeUpdate`, about the whole and about the change, and then `again` in the rules of the
    kind, so every cause is told several times.
    """
    meta, was = metadata(obj), metadata(old)
    change = Errors()
    _validate_change(meta, was, change)
    if not change and all(meta.get(field) == was.get(field) for field in ("finalizers", "generateName")):
        return  # nothing else of a stored object can have become wrong
    whole = Errors()
    _validate_whole(obj, whole, resource, names.path_segment_name)
    errors += whole
    errors += change
    for check in again:
        if check is MetaCheck.CHANGE:
            errors += change
        else:
            _validate_whole(obj, errors, resource, name_rule(resource.qualified))
        if resource.definition:
            _validate_finalizer_names(meta.get("finalizers") or (), errors)


def _validate_whole(obj: Obj, errors: Errors, resource: Resource, rule: names.Rule) -> None:
    meta = metadata(obj)
    if (generate := meta.get("generateName")) and resource.qualified not in _NAMED_ONCE:
        for text in rule(names.without_trailing_dash(generate)):
            errors.invalid("metadata.generateName", generate, text)
    if name := meta.get("name"):
        for text in rule(name):
            errors.invalid("metadata.name", name, text)
    else:
        errors.required("metadata.name", "name or generateName is required")
    _validate_namespace(meta.get("namespace") or "", resource.namespaced, errors)
    if meta.get("generation", 0) < 0:
        errors.invalid("metadata.generation", meta["generation"], "must be greater than or equal to 0")
    _validate_what_people_say(meta, errors)
    _validate_finalizers(meta.get("finalizers") or (), "metadata.finalizers", errors)
    _validate_managed_fields(meta.get("managedFields") or (), "metadata.managedFields", errors)


def _validate_what_people_say(meta: Obj, errors: Errors) -> None:
    validate_labels(meta.get("labels"), errors, "metadata.labels")
    validate_annotations(meta.get("annotations"), errors, "metadata.annotations")
    _validate_owners(meta.get("ownerReferences") or (), "metadata.ownerReferences", errors)


def validate_annotations(annotations: Mapping[str, str] | None, errors: Errors, path: str) -> None:
    if not annotations:
        return
    for key in annotations:
        for text in names.annotation_key(key):
            errors.invalid(path, key, text)
    if not names.annotations_fit(annotations):
        errors.too_long(path, names.ANNOTATIONS_MAX_BYTES)


def validate_change(obj: Obj, old: Obj, errors: Errors) -> None:
    """Validate the change of metadata again, as upstream does for some kinds in rules of their own."""
    _validate_change(metadata(obj), metadata(old), errors)
    _validate_finalizer_names(metadata(obj).get("finalizers") or (), errors)


def _validate_change(meta: Obj, old: Obj, errors: Errors) -> None:
    if old.get("deletionTimestamp"):
        _validate_no_new_finalizers(meta, old, errors)
    if not meta.get("resourceVersion"):
        errors.invalid("metadata.resourceVersion", "", "must be specified for an update")
    if meta.get("generation", 0) < old.get("generation", 0):
        errors.invalid("metadata.generation", meta.get("generation", 0), "must not be decremented")
    for field in _IMMUTABLE:
        value = meta.get(field)
        if value != old.get(field):
            missing = None if field.startswith("deletion") else ""
            errors.invalid(f"metadata.{field}", missing if value is None else value, "field is immutable")
    _validate_what_people_say(meta, errors)
    _validate_managed_fields(meta.get("managedFields") or (), "metadata.managedFields", errors)


def _validate_no_new_finalizers(meta: Obj, old: Obj, errors: Errors) -> None:
    added = set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added:
        listed = ", ".join(go_quote(finalizer) for finalizer in sorted(added))
        errors.forbidden(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}",
        )


def _validate_namespace(namespace: str, namespaced: bool, errors: Errors) -> None:
    if namespaced and not namespace:
        errors.required("metadata.namespace")
    elif namespaced:
        for text in names.dns1123_label(namespace):
            errors.invalid("metadata.namespace", namespace, text)
    elif namespace:
        errors.forbidden("metadata.namespace", "not allowed on this type")


def _validate_owners(owners: Sequence[Obj], path: str, errors: Errors) -> None:
    controller, forms = "", None
    for owner in owners:
        _validate_owner(owner, path, errors)
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                forms = forms or [_owner_form(owner) for owner in owners]
                errors.invalid(
                    path,
                    forms,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}",
                )
            else:
                controller = this


def _validate_owner(owner: Obj, path: str, errors: Errors) -> None:
    api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    group, _, version = api_version.rpartition("/")
    if not version or "/" in group:
        errors.invalid(f"{path}.apiVersion", api_version, "version must not be empty")
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            errors.invalid(f"{path}.{field}", "", "must not be empty")
    if (group, version, kind) == ("", "v1", "Event"):
        errors.invalid(path, _owner_form(owner), "/v1, Kind=Event is disallowed from being an owner")


def _owner_form(owner: Obj) -> dict[str, Any]:
    """An owner reference in the field order in which Go prints it."""
    return {field: owner.get(field, "") for field in _OWNER_FIELDS[:4]} | {
        field: owner[field] for field in _OWNER_FIELDS[4:] if owner.get(field) is not None
    }


def _validate_finalizers(finalizers: Sequence[str], path: str, errors: Errors) -> None:
    for finalizer in finalizers:
        for text in names.qualified_name(finalizer):
            errors.invalid(path, finalizer, text)
    if names.ORPHAN in finalizers and names.FOREGROUND in finalizers:
        errors.invalid(path, list(finalizers), f"finalizer {names.ORPHAN} and {names.FOREGROUND} cannot be both set")


def _validate_finalizer_names(finalizers: Sequence[str], errors: Errors) -> None:
    for index, finalizer in enumerate(finalizers):
        for text in names.kube_finalizer(finalizer):
            errors.invalid(f"metadata.finalizers[{index}]", finalizer, text)


def _validate_managed_fields(entries: Iterable[Obj], path: str, errors: Errors) -> None:
    for index, entry in enumerate(entries):
        where = f"{path}[{index}]"
        if entry.get("operation") not in ("Apply", "Update"):
            errors.invalid(f"{where}.operation", entry.get("operation", ""), "must be `Apply` or `Update`")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            errors.invalid(f"{where}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        manager = entry.get("manager", "")
        if len(manager.encode()) > _MANAGER_MAX:
            errors.too_long(f"{where}.manager", _MANAGER_MAX)
        for text in names.printable(manager):
            errors.invalid(f"{where}.manager", manager, text)
        if len(entry.get("subresource", "").encode()) > _SUBRESOURCE_MAX:
            errors.too_long(f"{where}.subresource", _SUBRESOURCE_MAX)

"""The body of an apply, and the rules for what comes with it.

An apply is YAML (JSON is YAML) that says which fields its author wants to own. What it may not say, and the options
that go with it, are checked here, in the order and the words of upstream.

Source: apiserver `endpoints/handlers/{patch,rest,create}.go`; apimachinery `apis/meta/v1/validation/validation.go` and
`util/managedfields/internal/{versioncheck,structuredmerge}.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api import names
from fairlead.api.errors import BadRequest, Conflict, Unknown
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.golang.yaml import MalformedYaml, parse, warnings_of
from fairlead.server.apply.forms import VersionForm
from fairlead.server.apply.validate import joined, problems_of

#: Longer names of managers are refused.
_LONGEST_MANAGER: Final = 128


# --- options --------------------------------------------------------------------------------------------------------


def check_options(errors: Errors, manager: str, *, is_apply: bool, has_force: bool) -> None:
    """The rules of a patch's `fieldManager` and `force`, and of the `fieldManager` of any write (`is_apply` false)."""
    if is_apply and not manager:
        errors.required("fieldManager", "is required for apply patch")
    if has_force and not is_apply:
        errors.forbidden("force", "may not be specified for non-apply patch")
    if len(manager.encode()) > _LONGEST_MANAGER:
        errors.too_long("fieldManager", _LONGEST_MANAGER)
    for text in names.printable(manager):
        errors.invalid("fieldManager", manager, text)


def manager_of(manager: str, user_agent: str) -> str:
    """The name under which a write is recorded: the one given, or the first word of the user agent."""
    if manager:
        return manager
    found = ""
    for char in user_agent.partition("/")[0]:
        if char.isprintable():
            if len((found + char).encode()) > _LONGEST_MANAGER:
                break
            found += char
    return found


# --- the body -------------------------------------------------------------------------------------------------------


def decode_config(body: bytes) -> tuple[Obj, list[str]]:
    """The object in the body of an apply, and what strict decoding says about keys that come twice."""
    try:
        value, repeated = parse(body)
    except MalformedYaml as error:
        raise BadRequest(f"error decoding YAML: {_converted(str(error))}") from None
    if value is None:
        return {}, repeated
    if not isinstance(value, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        why = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return value, repeated


def judge_repeated(repeated: Sequence[str], field_validation: str, warnings: list[str]) -> None:
    """Refuse duplicate keys, or warn of them, as `fieldValidation` asks; after the merge, as upstream does."""
    for text in repeated:
        if field_validation == "Strict":
            raise BadRequest(f"error strict decoding YAML: {_converted(text)}")
        if field_validation == "Warn":
            warnings.extend(warnings_of(text))


def _converted(text: str) -> str:
    return f"error converting YAML to JSON: {text}"


def check_config(config: Obj, kind: str, form: VersionForm) -> None:
    """Refuse a configuration of another kind, with owners of its own, or that does not fit the schema."""
    sent = _group_version_kind(config)
    if sent != _spelled(form.api_version, kind):
        raise BadRequest(f"invalid object type: {sent}")
    if isinstance(_metadata(config).get("managedFields"), list):
        raise BadRequest("metadata.managedFields must be nil")
    problems = problems_of(config, form.atom)
    if problems:
        raise Unknown(f"failed to create typed patch object ({called(config)}): {joined(problems)}")


def called(config: Obj) -> str:
    """`NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`, as a configuration says them."""
    namespace, name = (_text(_metadata(config).get(field)) for field in ("namespace", "name"))
    return f"{namespace}/{name}; {_group_version_kind(config)}"


def unconvertible(config: Obj, why: str) -> Unknown:
    """The refusal of a configuration that fits the schema but whose result is not an object of the kind."""
    inner = f"unable to convert unstructured object to {_group_version_kind(config)}: {why}"
    return Unknown(f"failed to convert new object ({called(config)}) to proper version: {inner}")


def check_merged(merged: Obj, resource: Resource, name: str, namespace: str, *, is_new: bool) -> None:
    """Refuse a configuration that means another object than the request."""
    meta = _metadata(merged)
    if is_new and (uid := meta.get("uid")):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise Conflict.of(resource.plural, name, why, resource.group)
    if resource.namespaced and meta.get("namespace", namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    sent_name = meta.get("name")
    if not sent_name:
        why = "name must be provided"
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: {why}")
    if sent_name != name:
        raise BadRequest(f"the name of the object ({sent_name}) does not match the name on the URL ({name})")


def _metadata(obj: Obj) -> Obj:
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _text(value: object) -> str:
    """As Go reads it of what nobody has looked at yet."""
    return value if isinstance(value, str) else ""


def _group_version_kind(config: Obj) -> str:
    version, kind = _text(config.get("apiVersion")), _text(config.get("kind"))
    if version.count("/") > 1:
        return "/, Kind="
    return _spelled(version, kind)


def _spelled(api_version: str, kind: str) -> str:
    """Go's spelling of a GroupVersionKind."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"

"""A custom kind as the registry serves it: rows, versions and behaviour made from a CRD.

An object is stored in one version and shown in any; between versions only `apiVersion` changes (conversion strategy
None) and what the other schema does not know is dropped, or a webhook is asked (`webhook_conversion.py`). It is
validated by the schema of the version it was sent in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from fairlead.api.builtin import SCALE
from fairlead.api.encoded import beginning, copied, encode
from fairlead.api.errors import BadRequest, Cause, TooLargeToStore
from fairlead.api.fields import Errors
from fairlead.api.names import qualified_name
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.resources import Resource, Subresource
from fairlead.api.versions import by_preference
from fairlead.cel.sizes import place_of
from fairlead.client.webhooks import WebhookClient
from fairlead.golang.quoting import go_quote
from fairlead.kinds.strategy import FieldGetter, Strategy
from fairlead.server.codec.body_types import BodyType
from fairlead.server.codec.normalise import DecodeReport, walker
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.codec.wire import OBJECT_META
from fairlead.server.crds import naming
from fairlead.server.crds.cel_rules import RuleNode, ask, compile_rules, cost_in
from fairlead.server.crds.embedded import check_embedded, coerce_embedded, has_embedded
from fairlead.server.crds.embedded_meta import check_metadata
from fairlead.server.crds.paths import compile_path
from fairlead.server.crds.pruning import drop_nulls, fill_defaults, prune
from fairlead.server.crds.scale import ScalePaths
from fairlead.server.crds.schema import ABSENT, compile_schema, each_schema
from fairlead.server.crds.uniqueness import check_unique
from fairlead.server.crds.values import Problems, ValueCheck, number_text, validate
from fairlead.server.crds.webhook_conversion import WebhookConverter

_STATUS_VERBS = ("get", "patch", "update")
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
#: A kind on its way out takes no new objects.
_TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
#: Objects that are larger are validated beside the loop in any case (`server/context.py`); what rules may cost on it.
_SMALL_BYTES = 4 << 10
_MUCH = 100_000
#: So many alternatives take long to try, and defaults of that size to fill in, however small the object is. Of fields
#: that it does not have, nothing is looked at.
_MANY_ALTERNATIVES = 1000
_LONG_DEFAULTS_BYTES = 32 << 10
#: Errors after which rules are not asked, because what they would look at may not be there.
_BLOCKING = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_ASKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


class CustomKind(msgspec.Struct, frozen=True):
    """What a CRD makes the server serve."""

    resource: Resource  # in the stored version, which need not be served
    strategy: CustomStrategy
    versions: dict[str, ServedVersion]  # the served ones, by apiVersion


def custom_kind(crd: Obj, webhooks: WebhookClient | None = None) -> CustomKind:
    """Compile a CRD. Costs milliseconds, once per change of the CRD. `webhooks` call whoever converts its objects."""
    schemas = {row.version: VersionSchema(version, row) for version, row in _rows(crd)}
    stored = next(schema for schema in schemas.values() if schema.is_storage)
    best = _best_of(schemas.values())
    for schema in schemas.values():
        schema.deprecation = _deprecation(schema, best)
    by_version = {schema.resource.api_version: schema for schema in schemas.values()}
    conversion, converter = crd["spec"].get("conversion") or {}, None
    if webhooks is not None and conversion.get("strategy") == "Webhook":
        converter = WebhookConverter(webhooks, conversion, stored.resource.kind, by_version)
    served = {
        schema.resource.api_version: ServedVersion(
            schema.resource,
            normalise=schema.normalise,
            normalise_applied=schema.normalise_applied,
            from_stored=None if schema.is_storage or converter else schema.converted,
            prefix=beginning(schema.resource.kind, schema.resource.api_version),
            deprecation=schema.deprecation,
            converter=converter,
        )
        for schema in schemas.values()
        if schema.is_served
    }
    strategy = CustomStrategy(by_version, stored, converter)
    return CustomKind(stored.resource, strategy, served)


def resources_of(crd: Obj) -> list[Resource]:
    """The rows of the served versions; none until the CRD is established."""
    if not naming.is_true(crd.get("status") or {}, "Established"):
        return []
    return [row for version, row in _rows(crd) if version.get("served")]


class VersionSchema:
    """One version of a custom kind, compiled."""

    def __init__(self, version: Obj, resource: Resource) -> None:
        schema: Obj = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        self.resource = resource
        self.is_served = bool(version.get("served"))
        self.is_storage = bool(version.get("storage"))
        self.is_deprecated = bool(version.get("deprecated"))
        self.deprecation_text: str | None = version.get("deprecationWarning")
        self.node = compile_schema(schema)
        self.check = ValueCheck(schema)
        self.status_check = ValueCheck((schema.get("properties") or {}).get("status") or {})
        self.has_embedded = has_embedded(self.node)
        self.rules = compile_rules(schema)
        #: Whether even an object that is not large may take long: because of the rules, or of the schema.
        self.is_slow = _is_slow(schema) or (self.rules is not None and _cost_of_small(self.rules, schema) > _MUCH)
        subresources = version.get("subresources") or {}
        self.has_status = subresources.get("status") is not None
        self.scale = ScalePaths(subresources["scale"]) if subresources.get("scale") else None
        paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
        self.selectable: Mapping[str, FieldGetter] = {path.removeprefix("."): _getter(path) for path in paths}
        self.deprecation = ""  # the warning that every request to this version gets

    def normalise(self, obj: Obj) -> list[str]:
        """Make a received object normal; what strict decoding objects to."""
        drop_nulls(obj, self.node)
        return self.normalise_applied(obj)

    def normalise_applied(self, obj: Obj) -> list[str]:
        """The same for what an apply has made: it is not decoded, so validation sees nulls that no default replaces."""
        report = DecodeReport()
        meta = obj.get("metadata")
        if meta is not None:
            walker(OBJECT_META)(meta, None, report)
        if report.mismatch:
            raise self._refusal(report.mismatch)
        fill_defaults(obj, self.node)
        unknown = [f"metadata.{path}" for path in report.unknown] + prune(obj, self.node)
        if self.has_embedded and (wrong := coerce_embedded(obj, self.node, unknown)):
            raise self._refusal(wrong)
        return [f"unknown field {go_quote(path)}" for path in unknown]

    def _refusal(self, text: str) -> BadRequest:
        row = self.resource
        return BodyType(row.group, row.version, row.kind, "").refusal(text)

    def shown(self, obj: Obj) -> Obj:
        """A stored object as the version in which it is stored shows it."""
        obj["apiVersion"] = self.resource.api_version
        drop_nulls(obj, self.node)
        with suppress(TooLargeToStore):  # a definition cannot take from sight what is stored
            fill_defaults(obj, self.node)
        prune(obj, self.node)
        return obj

    def converted(self, obj: Obj) -> Obj:
        """An object of another version in this one, whose defaults are only for what is sent in it."""
        obj["apiVersion"] = self.resource.api_version
        prune(obj, self.node)
        drop_nulls(obj, self.node)
        return obj

    def prune(self, obj: Obj) -> None:
        """Drop what this version does not know."""
        prune(obj, self.node)

    def problems(self, obj: Obj, old: Obj | None) -> Problems:
        """Everything wrong with an object, except its metadata."""
        found = validate(self.check, obj, old=ABSENT if old is None else old)
        if self.scale is not None:
            self.scale.check_spec(obj, found)
            self.scale.check_status(obj, found)
        if self.has_embedded:
            check_embedded(obj, self.node, found, rules=check_metadata)
        self._check_unique(obj, old, found)
        self._check_rules(obj, old, found)
        return found

    def status_problems(self, obj: Obj, old: Obj) -> Problems:
        """Everything wrong with a status that is about to be written."""
        found = Problems()
        if "status" in obj:
            found = validate(self.status_check, obj["status"], "status", old.get("status", ABSENT))
        if self.scale is not None:
            self.scale.check_status(obj, found)
        self._check_unique(obj, old, found)
        self._check_rules(obj, old, found)
        return found

    def _check_unique(self, obj: Obj, old: Obj | None, found: Problems) -> None:
        """An object that has repetitions already may keep them."""
        repeated = Problems()
        check_unique(obj, self.node, repeated)
        if repeated and old is not None:
            before = Problems()
            check_unique(old, self.node, before)
            if before:
                return
        found.merge(repeated)

    def _check_rules(self, obj: Obj, old: Obj | None, found: Problems) -> None:
        """Rules in CEL (`x-kubernetes-validations`) are asked last, and only about a sound object."""
        if self.rules is None:
            return
        if any(cause.reason in _BLOCKING for cause in found):
            found.append(Cause("FieldValueInvalid", _NOT_ASKED, "<nil>"))
            return
        asked = Problems()
        ask(self.rules, obj, ABSENT if old is None else old, asked)
        found.merge(asked)


class CustomStrategy(Strategy):
    """The behaviour of one custom kind in all its versions."""

    has_generation = True
    allows_unconditional_update = False

    def __init__(
        self, versions: Mapping[str, VersionSchema], stored: VersionSchema, converter: WebhookConverter | None
    ) -> None:
        self.stored, self._converter = stored, converter
        self.versions = versions
        self.has_status = stored.has_status
        if any(version.is_slow for version in versions.values()):
            self.slow_bytes = 0
        self.selectable = {key: get for version in versions.values() for key, get in version.selectable.items()}

    def selectable_in(self, api_version: str) -> Mapping[str, FieldGetter]:
        return self.versions[api_version].selectable

    def of(self, obj: Obj) -> VersionSchema:
        """The version an object is in."""
        version = obj.get("apiVersion")  # whatever a patch has made of it
        return self.versions.get(version, self.stored) if isinstance(version, str) else self.stored

    def refresh(self, obj: Obj) -> Obj:
        schema = self.stored if self._converter is None else self.of(obj)
        return schema.shown(obj)

    async def in_version(self, obj: Obj, api_version: str) -> Obj:
        """The object in that version; it stays as it is."""
        if obj.get("apiVersion") == api_version:
            return obj
        if self._converter is not None:
            return await self._converter.converted(obj, api_version)
        version = self.versions[api_version]
        return (version.shown if version is self.stored else version.converted)(copied(obj))

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        # Without a status subresource the status is a field like any other, so its changes count too.
        if not self.has_status and obj.get("status") != old.get("status"):
            metadata(obj)["generation"] = metadata(old).get("generation", 0) + 1

    def validate(self, obj: Obj, errors: Errors) -> None:
        self._check_kind(obj)
        errors.extend(self.of(obj).problems(obj, None))

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self._check_kind(obj)
        errors.extend(self.of(obj).problems(obj, old))

    def _check_kind(self, obj: Obj) -> None:
        """Nothing else is said of an object of another kind (customresource/validator.go, `ValidateTypeMeta`)."""
        row = self.stored.resource
        sent = obj.get("kind", row.kind)
        if sent != row.kind:
            errors = Errors()
            errors.invalid("kind", sent, f"must be {row.kind}")
            errors.raise_invalid(sent, name_of(obj), row.group)

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        """The status endpoint of a custom kind writes no metadata."""
        managed = metadata(obj).get("managedFields")
        obj["metadata"] = dict(metadata(old)) | ({"managedFields": managed} if managed else {})

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        errors.extend(self.of(obj).status_problems(obj, old))

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        before = metadata(old).get("finalizers", ()) if old else ()
        added = sorted(set(metadata(obj).get("finalizers", ())) - set(before))
        return [text for name in added for text in _finalizer_warnings(name)]


def _rows(crd: Obj) -> list[tuple[Obj, Resource]]:
    spec, status = crd["spec"], crd.get("status") or {}
    names = status.get("acceptedNames") or {}
    names = names if names.get("plural") and names.get("kind") else spec["names"]
    # Discovery tells of the stored version only if it is served.
    stored = next((row["name"] for row in spec["versions"] if row.get("storage") and row.get("served")), "")
    verbs = _TERMINATING_VERBS if naming.is_true(status, "Terminating") else _VERBS
    return [
        (
            version,
            Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=names.get("singular", ""),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                verbs=verbs,
                subresources=_subresources(version, names["kind"]),
                storage_version=stored,
                list_kind=names.get("listKind", ""),
            ),
        )
        for version in spec["versions"]
    ]


def _subresources(version: Obj, kind: str) -> dict[str, Subresource]:
    declared = version.get("subresources") or {}
    found = {}
    if declared.get("status") is not None:
        found["status"] = Subresource("status", kind, _STATUS_VERBS)
    if declared.get("scale") is not None:
        found["scale"] = SCALE
    return found


def _is_slow(schema: Obj) -> bool:
    alternatives = defaults = 0
    for node in each_schema(schema):
        alternatives += sum(len(node.get(key) or ()) for key in ("allOf", "anyOf", "oneOf"))
        defaults += len(encode(node["default"])) if "default" in node else 0
    return alternatives > _MANY_ALTERNATIVES or defaults > _LONG_DEFAULTS_BYTES


def _cost_of_small(rules: RuleNode, schema: Obj) -> int:
    return cost_in(place_of(schema, is_root=True, request_bytes=_SMALL_BYTES), rules)


def _getter(path: str) -> FieldGetter:
    return partial(_selected, compile_path(path))


def _selected(find: Any, obj: Obj) -> str:
    """The first value found, as Go's `fmt.Sprint` would print it."""
    value = next(iter(find(obj)), None)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else str(value)


def _best_of(schemas: Iterable[VersionSchema]) -> Resource | None:
    """The version that one goes to from a deprecated one."""
    sound = (schema.resource for schema in schemas if schema.is_served and not schema.is_deprecated)
    return min(sound, key=lambda row: by_preference(row.version), default=None)


def _deprecation(schema: VersionSchema, best: Resource | None) -> str:
    """The warning about a deprecated version: its author's, or one that names the best version to go to."""
    row, text = schema.resource, schema.deprecation_text
    if not schema.is_deprecated or text is not None:
        return text or ""
    is_better = best is not None and by_preference(best.version) < by_preference(row.version)
    advice = f"; use {best.api_version} {row.kind}" if best is not None and is_better else ""
    return f"{row.api_version} {row.kind} is deprecated{advice}"


def _finalizer_warnings(name: str) -> list[str]:
    where = f"metadata.finalizers: {go_quote(name)}"
    texts = [f"{where}: {text}" for text in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        texts.append(
            f"{where}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other "
            "finalizer writers"
        )
    return texts

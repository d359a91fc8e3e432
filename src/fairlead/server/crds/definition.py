"""CustomResourceDefinition as a stored kind: defaults, server-owned status, rules, warnings, deletion."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.kinds.strategy import Strategy
from fairlead.kinds.webhook_clients import default_client
from fairlead.runtime.clock import timestamp
from fairlead.server.crds import formats, naming, rules
from fairlead.server.crds.schema import each_schema


class CustomResourceDefinitionStrategy(Strategy):
    slow_bytes = 0  # expressions take long to compile, and to ask about defaults
    has_generation = True
    has_status = True
    allows_unconditional_update = False

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        names = spec.setdefault("names", {})
        kind = names.get("kind", "")
        if kind:
            if not names.get("singular"):
                names["singular"] = kind.lower()
            if not names.get("listKind"):
                names["listKind"] = f"{kind}List"
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        default_client((conversion.get("webhook") or {}).get("clientConfig") or {})
        status = obj.get("status")
        if status is not None and not status.get("storedVersions") and _storage_version(obj):
            status["storedVersions"] = [_storage_version(obj)]

    def prepare_create(self, obj: Obj) -> None:
        stored = [_storage_version(obj)] if _storage_version(obj) else None
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        version = _storage_version(obj)
        stored = (obj["status"].get("storedVersions") or []) if version else []
        if version and version not in stored:
            obj["status"] = obj["status"] | {"storedVersions": [*stored, version]}

    def validate(self, obj: Obj, errors: Errors) -> None:
        rules.check_create(obj, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        rules.check_update(obj, old, errors, is_established=naming.is_true(old["status"], "Established"))

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        rules.check_names(obj["status"].get("acceptedNames") or {}, "status.acceptedNames", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        known = set(_unknown_formats(old)) if old is not None else set()
        return [f"unrecognized format {go_quote(name)}" for name in _unknown_formats(obj) if name not in known]

    def mark_deleted(self, obj: Obj) -> None:
        naming.begin_deletion(obj, timestamp())

    def holds_deletion(self, obj: Obj) -> bool:
        """A CRD waits for its objects; the finalizer that says so comes with the first DELETE."""
        meta = obj["metadata"]
        return "deletionTimestamp" not in meta or naming.CRD_FINALIZER in meta.get("finalizers", ())


STRATEGY = CustomResourceDefinitionStrategy()


def _storage_version(crd: Obj) -> str:
    versions = crd["spec"].get("versions") or ()
    return next((str(version["name"]) for version in versions if version.get("storage")), "")


def _unknown_formats(crd: Obj) -> Iterator[str]:
    """Formats that validation will ignore; of versions with one schema it is looked at once."""
    schemas: list[Obj] = []
    for version in crd["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema and schema not in schemas:
            schemas.append(schema)
    for schema in schemas:
        for node in each_schema(schema):
            format_ = node.get("format")
            if format_ and not formats.is_known(format_, node.get("type", "")):
                yield format_

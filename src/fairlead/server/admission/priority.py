"""Priority: turns the name of a PriorityClass into the number that the scheduler compares.

The number is written into the pod, so that deleting or replacing a class never changes a running pod (S3-06, S3-07).
Source: plugin/pkg/admission/priority.
"""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.objects import name_of
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation

CLASSES = "priorityclasses.scheduling.k8s.io"


class _PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class Priority(AdmissionPlugin):
    name = "Priority"
    resources = frozenset({"pods", CLASSES})

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource.qualified != "pods":
            return
        if attributes.operation is Operation.CREATE:
            self._resolve(attributes)
        else:
            _keep_what_the_client_left_out(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Only one class may be the default (S3-05)."""
        if attributes.resource.qualified != CLASSES or not attributes.obj.get("globalDefault"):
            return
        current = self._default_class()
        if current is None or (
            attributes.operation is Operation.UPDATE and current.metadata.name == name_of(attributes.obj)
        ):
            return
        raise attributes.forbidden(
            f"PriorityClass {current.metadata.name} is already marked as default. Only one default can exist"
        )

    def _resolve(self, attributes: Attributes) -> None:
        spec = attributes.spec
        chosen = self._class_of(attributes)
        value, policy = (0, "PreemptLowerPriority") if chosen is None else (chosen.value, chosen.preemption_policy)
        if chosen is not None:
            spec["priorityClassName"] = chosen.metadata.name
        if spec.setdefault("priority", value) != value:
            raise attributes.forbidden(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
        if policy is not None and spec.setdefault("preemptionPolicy", policy) != policy:
            raise attributes.forbidden(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )

    def _class_of(self, attributes: Attributes) -> _PriorityClass | None:
        """The class that the pod names, or else the default class, if there is one."""
        name = attributes.spec.get("priorityClassName")
        if not name:
            return self._default_class()
        found = self._reader.find(CLASSES, name)
        if found is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
        return found.kept_view(_PriorityClass)

    def _default_class(self) -> _PriorityClass | None:
        """If a race has created several defaults, the one with the lowest value."""
        classes = (entry.kept_view(_PriorityClass) for entry in self._reader.each(CLASSES))
        return min((entry for entry in classes if entry.global_default), key=lambda entry: entry.value, default=None)


def _keep_what_the_client_left_out(attributes: Attributes) -> None:
    """Keep the admitted values if the client left them out: its manifest does not have them."""
    old = (attributes.old or {}).get("spec") or {}
    for field in ("priority", "preemptionPolicy"):
        if field in old:
            attributes.spec.setdefault(field, old[field])

"""What annotations of a namespace give its pods, and what they allow them: node labels and tolerations.

Both are off by default. Sources: plugin/pkg/admission/{podnodeselector,podtolerationrestriction}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.api import names
from fairlead.api.errors import Forbidden, NotFound, Unknown
from fairlead.api.meta import Object
from fairlead.api.objects import Obj, name_of
from fairlead.api.qos import BEST_EFFORT, qos_class
from fairlead.api.taints import NO_SCHEDULE
from fairlead.caches import bounded_cache
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import printed
from fairlead.kinds.podspec.tolerations import read_tolerations
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes, Dependencies, Operation, Reader
from fairlead.server.admission.toleration_sets import all_allowed, merged_tolerations

_PODS: Final = frozenset({"pods"})
_NODE_SELECTOR: Final = "scheduler.alpha.kubernetes.io/node-selector"
#: What the configuration says of namespaces without that annotation.
_CLUSTER_DEFAULT: Final = "clusterDefaultNodeSelector"
_DEFAULT_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
_ALLOWED_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE: Final[Obj] = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": NO_SCHEDULE,
}


class PodNodeSelector(AdmissionPlugin):
    """The pods of a namespace go to nodes with certain labels, whatever else they select."""

    name = "PodNodeSelector"
    resources = _PODS
    operations = CREATE_ONLY

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._configured = dependencies.configuration.node_selectors

    async def admit(self, attributes: Attributes) -> None:
        wanted = self._wanted(attributes)
        if wanted:
            attributes.spec["nodeSelector"] = {**wanted, **(attributes.spec.get("nodeSelector") or {})}

    async def validate(self, attributes: Attributes) -> None:
        self._wanted(attributes)
        allowed = _labels_in(self._configured.get(attributes.namespace, ""))
        if allowed and not (attributes.spec.get("nodeSelector") or {}).items() <= allowed.items():
            why = "pod node label selector labels conflict with its namespace whitelist"
            raise Forbidden.of("pods", name_of(attributes.obj), why)

    def _wanted(self, attributes: Attributes) -> Mapping[str, str]:
        """What the namespace selects; refuses a pod that selects something else."""
        annotations = _annotations(self._reader, attributes.namespace)
        wanted = _labels_in(annotations.get(_NODE_SELECTOR, self._configured.get(_CLUSTER_DEFAULT, "")))
        selected = attributes.spec.get("nodeSelector") or {}
        if any(selected.get(key, value) != value for key, value in wanted.items()):
            why = "pod node label selector conflicts with its namespace node label selector"
            raise Forbidden.of("pods", name_of(attributes.obj), why)
        return wanted


class PodTolerationRestriction(AdmissionPlugin):
    """The pods of a namespace get its tolerations, and have none that it does not allow.

    It alone gives pods that are not BestEffort a toleration of memory pressure (S3-62).
    """

    name = "PodTolerationRestriction"
    resources = _PODS

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._configured = dependencies.configuration.pod_tolerations

    async def admit(self, attributes: Attributes) -> None:
        added: list[Obj] = []
        if attributes.operation is Operation.CREATE:
            own = self._of_namespace(attributes, _DEFAULT_TOLERATIONS)
            added += self._configured.default if own is None else own
        if qos_class(attributes.spec) != BEST_EFFORT:
            added.append(_MEMORY_PRESSURE)
        if added:
            own_copies = map(dict, added)  # of what other pods get as well
            present = attributes.spec.get("tolerations") or ()
            attributes.spec["tolerations"] = merged_tolerations([*present, *own_copies])
        self._check(attributes)

    async def validate(self, attributes: Attributes) -> None:
        self._check(attributes)

    def _check(self, attributes: Attributes) -> None:
        tolerations = attributes.spec.get("tolerations")
        if not tolerations:
            return
        own = self._of_namespace(attributes, _ALLOWED_TOLERATIONS)
        scope, allowed = ("cluster", self._configured.whitelist) if own is None else ("namespace", own)
        if allowed and not all_allowed(tolerations, allowed):
            what = "pod tolerations (possibly merged with namespace default tolerations)"
            raise Unknown(f"{what} conflict with its {scope} whitelist")

    def _of_namespace(self, attributes: Attributes, key: str) -> Sequence[Obj] | None:
        """What the namespace says itself: an empty annotation says that there are none."""
        text = _annotations(self._reader, attributes.namespace).get(key)
        if not text:
            return None if text is None else ()
        try:
            return _read(text)
        except ValueError as error:
            raise Unknown(str(error)) from None


@bounded_cache(maxsize=1024, longest=16_384)
def _read(text: str) -> tuple[Obj, ...]:
    return tuple(read_tolerations(text, "v1"))


def _annotations(reader: Reader, namespace: str) -> Mapping[str, str]:
    found = reader.find("namespaces", namespace)
    if found is None:
        raise NotFound.of("namespaces", namespace)
    return found.kept_view(Object).metadata.annotations


def _labels_in(text: str) -> dict[str, str]:
    """`key=value,key=value` (k8s.io/apimachinery, ConvertSelectorToLabelsMap)."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        halves = part.split("=")
        if len(halves) != 2:
            raise Unknown(f"invalid selector: {printed(halves)}")
        key, value = halves[0].strip(), halves[1].strip()
        for path, half, wrong in (
            ("<nil>", key, names.qualified_name(key)),
            (f"[{key}]", value, names.label_value(value)),
        ):
            if wrong:
                raise Unknown(f"{path}: Invalid value: {go_quote(half)}: {'; '.join(wrong)}")
        found[key] = value
    return found

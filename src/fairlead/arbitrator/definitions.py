"""The CustomResourceDefinitions of the arbitrator's kinds, for whatever API server they are installed on.

The group is the documents' own, and of the protected ones: a real API server wants its approval annotation (S2-11).
"""

from __future__ import annotations

from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    MISSPELT_ALLOCATIONS,
    MISSPELT_CONSUMERS,
    POLICIES,
    VERSION,
)

_APPROVAL: Final = {"api-approved.kubernetes.io": "unapproved, of the incubator's documents"}

_AMOUNT: Final[Obj] = {"x-kubernetes-int-or-string": True}
_TEXT: Final[Obj] = {"type": "string"}
_TIME: Final[Obj] = {"type": "string", "format": "date-time"}


def _amounts(description: str) -> Obj:
    return {"type": "object", "description": description, "additionalProperties": _AMOUNT}


def _object(**properties: Obj) -> Obj:
    return {"type": "object", "properties": properties}


_SHARE: Final[dict[str, Any]] = {
    "hard": _amounts("No more than this, by quota names; percentages are of the cluster."),
    "reserved": _amounts("Guaranteed; at most hard."),
    "parent": _TEXT | {"description": "The ConsumerGroup that this is a member of; none: the cluster itself."},
    "weight": {"type": "integer", "minimum": 0, "default": 1, "description": "Its part, beside its siblings' weights."},
    "reservedPolicy": _TEXT | {"enum": ["Hold", "Lend"], "default": "Lend", "description": "Idle reserved amounts."},
}
_DURATION: Final[Obj] = {"type": "string", "pattern": r"^(\d+h)?(\d+m)?(\d+(\.\d+)?s)?(\d+ms)?$", "minLength": 2}
_DIVIDED: Final[dict[str, Any]] = {
    "request": _amounts("What all pods ask for."),
    "deserved": _amounts("What the namespace is allotted in total."),
    "used": _amounts("What its pods on nodes hold, those that are ending included."),
}
_COMPUTED: Final[dict[str, Any]] = {
    **_DIVIDED,
    "granted": _amounts("What it may use now, while others still hold parts of the rest."),
    "reclaiming": _amounts(
        "What is being taken back from it: held by the proposed victims, and by pods on their way out."
    ),
    "borrowed": _amounts("What is used beyond what is reserved."),
    "dominantShare": _TEXT | {"description": "The largest share of any resource that it deserves, by its weight."},
    "clusterShare": _TEXT | {"description": "The same, whatever its weight."},
    "bottleneck": _TEXT,
    "overusedSince": _TIME | {"nullable": True},
    "proposal": _object(
        deadline=_TIME | {"description": "When the first of the victims is evicted."},
        victims={
            "type": "array",
            "items": _object(name=_TEXT, uid=_TEXT, deadline=_TIME) | {"required": ["name", "uid"]},
        },
        beneficiaries={"type": "array", "items": _TEXT, "description": "The pods that could start then."},
    )
    | {"nullable": True, "description": "What will be taken back unless the owner makes room in another way."},
    "backOff": _object(
        failures={"type": "integer", "description": "How often in a row others took the room that was made."},
        until=_TIME | {"description": "Until then nothing is taken back for this namespace."},
        beneficiary=_TEXT | {"description": "The pod that was not helped."},
    )
    | {"nullable": True, "description": "Set where taking back did not help."},
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": _object(
            type=_TEXT,
            status=_TEXT,
            reason=_TEXT,
            message=_TEXT,
            lastTransitionTime=_TIME,
        )
        | {"required": ["type", "status"]},
    },
}


def _column(name: str, path: str, type_: str = "string") -> Obj:
    return {"name": name, "type": type_, "jsonPath": path}


_AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")
_SHARE_COLUMNS: Final = (_column("Weight", ".spec.weight", "integer"), _column("Parent", ".spec.parent"), _AGE)
_POLICY_COLUMNS: Final = (_column("Policy", ".spec.policy"), _column("Surplus", ".spec.surplusMode"), _AGE)
_CONSUMER: Final = _object(
    **_SHARE,
    unlimited={"type": "boolean", "description": "Gets what it asks for before anybody else."},
    evictionGrace=_DURATION | {"default": "30s", "description": "Between the notice and the eviction."},
    minRuntime=_DURATION | {"default": "0s", "description": "Pods that run for less are left alone."},
)


def _definition(resource: Resource, spec: Obj, status: Obj, columns: tuple[Obj, ...]) -> Obj:
    names: Obj = {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(columns),
        "schema": {"openAPIV3Schema": _object(spec=spec, status=status)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified, "annotations": dict(_APPROVAL)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def definitions() -> list[Obj]:
    """All of them, fresh."""
    policy = _object(
        policy=_TEXT | {"enum": ["drf", "proportion", "limits"], "default": "drf"},
        surplusMode=_TEXT | {"enum": ["Total", "Surplus"], "default": "Total"},
        cycle=_DURATION | {"default": "1s"},
        nodeSelector={"type": "object", "additionalProperties": _TEXT},
        resources={"type": "array", "items": _TEXT},
        maxEvictionsPerCycle={"type": "integer", "minimum": 0, "default": 10},
        victimOrder=_TEXT | {"enum": ["YoungestFirst", "Random"], "default": "YoungestFirst"},
    )
    copied = _object(
        **{key: _COMPUTED["deserved"] if key == "deserved" else _SHARE[key] for key in ("hard", "reserved", "deserved")}
    )
    shares = (
        _column("Share", ".status.dominantShare"),
        _column("Bottleneck", ".status.bottleneck"),
        _column("Overused Since", ".status.overusedSince", "date"),
        _AGE,
    )
    return [
        _definition(CONSUMERS, _CONSUMER, _object(), _SHARE_COLUMNS),
        _definition(CONSUMER_GROUPS, _object(**_SHARE), _object(**_DIVIDED), _SHARE_COLUMNS),
        _definition(ALLOCATIONS, copied, _object(**_COMPUTED), shares),
        _definition(POLICIES, policy, _object(), _POLICY_COLUMNS),
        _definition(MISSPELT_CONSUMERS, _CONSUMER, _object(), _SHARE_COLUMNS),
        _definition(MISSPELT_ALLOCATIONS, copied, _object(**_COMPUTED), shares),
    ]

"""A value of an object that is there becomes another one, or goes: that is refused or taken, never a bug of ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.users import MASTERS, User
from fairlead.api.verbs import PatchType, WriteOptions
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.sim.nodes import NodeShape, uniform

Place: TypeAlias = tuple[str | int, ...]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
DRY_RUN: Final = WriteOptions(dry_run=True)
#: What nobody expects there.
VALUES: Final[tuple[Any, ...]] = (None, {}, [], "x", -1, 10**20, True, [None], {"": None}, {"x": {"y": [1]}})
#: Of these the examples have none.
FURTHER: Final = """
{kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2, metadata: {name: h}, spec: {maxReplicas: 3,
 scaleTargetRef: {kind: Deployment, apiVersion: apps/v1, name: web},
 metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}
---
{kind: Deployment, apiVersion: apps/v1, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}},
 template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]}}}}
---
{kind: CronJob, apiVersion: batch/v1, metadata: {name: c}, spec: {schedule: "* * * * *",
 jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
---
{kind: Service, apiVersion: v1, metadata: {name: web}, spec: {selector: {a: b}, ports: [{port: 80}]}}
---
{kind: Ingress, apiVersion: networking.k8s.io/v1, metadata: {name: i},
 spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}
---
{kind: PodDisruptionBudget, apiVersion: policy/v1, metadata: {name: p},
 spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}
---
{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {cpu: 10, pods: 5}}}
---
{kind: StatefulSet, apiVersion: apps/v1, metadata: {name: s}, spec: {serviceName: web, selector: {matchLabels: {s: s}},
 template: {metadata: {labels: {s: s}}, spec: {containers: [{name: c, image: i}]}},
 volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce],
 resources: {requests: {storage: 1Gi}}}}]}}
---
{kind: DaemonSet, apiVersion: apps/v1, metadata: {name: d}, spec: {selector: {matchLabels: {d: d}},
 template: {metadata: {labels: {d: d}}, spec: {containers: [{name: c, image: i}]}}}}
---
{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: n},
 spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}
---
{kind: ValidatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: v},
 spec: {matchConstraints: {resourceRules: [{apiGroups: [x], apiVersions: [v1], resources: [x], operations: ["*"]}]},
 validations: [{expression: "true"}]}}
"""


def objects() -> list[Obj]:
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    found = [obj for text in (*texts, FURTHER) for obj in yaml.safe_load_all(text)]
    return [obj for obj in found if isinstance(obj, dict) and "kind" in obj]


def places(value: Any, before: Place = ()) -> Iterator[Place]:
    """Every place in it; of lists the first entries alone."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, below in entries:
        place = (*before, key)
        yield place
        yield from places(below, place)


def merging(place: Place, value: Any) -> Any:
    for key in reversed(place):
        value = {key: value}
    return value


def patches(obj: Obj) -> Iterator[tuple[Any, PatchType]]:
    for place in places(obj):
        path = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)
        yield [{"op": "remove", "path": path}], PatchType.JSON
        for value in VALUES:
            yield [{"op": "replace", "path": path, "value": value}], PatchType.JSON
            if all(isinstance(key, str) for key in place):
                yield merging(place, value), PatchType.MERGE
                yield merging(place, value), PatchType.STRATEGIC


async def create_all(api: UserApi) -> None:
    """What the server takes of them; of examples some are meant to be refused."""
    for obj in objects():
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = api.registry.resource_of(group, version, obj["kind"])
        if resource is not None:
            namespace = metadata(obj).get("namespace", "default") if resource.namespaced else ""
            with suppress(ApiError):
                await api.create(resource, obj, namespace)


async def bugs_of(api: UserApi, resource: Resource, subresource: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for entry in (await api.list(resource)).items[:1]:
        meta = metadata(entry.obj())
        name, namespace = meta["name"], meta.get("namespace", "")
        try:
            obj = (await api.get(resource, name, namespace, subresource)).obj()
        except ApiError:  # there is none of it for this object
            continue
        for patch, type_ in patches(obj):
            try:
                await api.patch(resource, name, namespace, patch, type_, subresource=subresource, options=DRY_RUN)
            except ApiError:
                pass
            except Exception as error:  # a client is told that there was an internal error
                found[f"{resource.qualified}/{subresource} {type_.name} {patch}: {error!r}"] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("tracks_fields", [True, False], ids=["of a client", "of a component"])
def test_whatever_an_object_becomes_is_no_bug(tracks_fields: bool) -> None:
    async def main() -> tuple[int, Counter[str]]:
        nodes = tuple(uniform(2, NodeShape("8", "32Gi", 110)))
        kinds, found = 0, Counter[str]()
        async with simulation(Settings(nodes=nodes, arbitrator=True)) as (api, _):
            await create_all(api)
            await asyncio.sleep(90)
            client = api.registry.as_user(User("admin", groups=(MASTERS,)), tracks_fields=tracks_fields)
            rows = [version.resource for served in api.registry.catalogue for version in served.versions.values()]
            for row in rows:
                for subresource in ("", *row.subresources):
                    verbs = row.subresources[subresource].verbs if subresource else row.verbs
                    if "patch" in verbs:
                        kinds += 1
                        found += await bugs_of(client, row, subresource)
        return kinds, found

    kinds, found = run_virtual(main())
    assert kinds > 80
    assert not found, "\n".join(list(found)[:20])

"""Which resizes the API server lets through to a node (golden/node/resize.yaml, its rows without `steps`)."""

from __future__ import annotations

from fairlead.api.builtin import NAMESPACES, NODES, PODS
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.runtime.loops import run_virtual
from fairlead.store.memory import MemoryStore
from tests.node.golden import Row, each_of, read
from tests.server.registry_world import NAMESPACE, world

#: What every node declares but `node-2`.
_FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]
_POD_LEVEL = "$pod"


def _node(row: Row) -> Obj:
    status: Obj = {"allocatable": row["nodeAllocatable"], "capacity": row["nodeAllocatable"]}
    if row["node"] != "node-2":
        status["declaredFeatures"] = _FEATURES
    labels = {"kubernetes.io/os": row["nodeOS"]}
    return {"metadata": {"name": row["node"], "labels": labels}, "status": status}


def _resize(row: Row) -> Obj:
    containers = [{"name": name, "resources": size} for name, size in row["resize"].items() if name != _POD_LEVEL]
    spec: Obj = {"containers": containers} if containers else {}
    return {"spec": spec | ({"resources": row["resize"][_POD_LEVEL]} if _POD_LEVEL in row["resize"] else {})}


def _refused(error: ApiError) -> Row:
    status = error.status()
    causes = (status.get("details") or {}).get("causes")
    return {key: status[key] for key in ("code", "reason", "message")} | {"causes": causes}


async def _answer(row: Row) -> Row:
    async with world(MemoryStore()) as here:
        await here.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        if row["node"] != "ghost":
            await here.create(NODES, _node(row))
        pod = row["pod"] | {"spec": row["pod"]["spec"] | {"nodeName": row["node"]}}
        await here.create(PODS, pod)
        try:
            await here.api.patch(PODS, "p", NAMESPACE, _resize(row), PatchType.STRATEGIC, subresource="resize")
        except ApiError as error:
            return _refused(error)
    return {"code": 200}


@each_of([row for row in read("resize") if "steps" not in row])
def test_a_resize_is_answered_as_recorded(row: Row) -> None:
    assert run_virtual(_answer(row)) == row["expect"]

"""YuniKorn: the tree of queues in its ConfigMap becomes groups; a queue without children that is called like a
namespace becomes that namespace's Consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.golang import yaml as goyaml
from fairlead.study.queues.mapped import Mapped, amounts

CONFIG_MAP: Final = "yunikorn-configs"
#: Their names of resources, and ours.
_RESOURCES: Final = {"vcore": "cpu", "memory": "memory"}
_UNMAPPED: Final = ("maxapplications", "properties", "limits", "childtemplate", "adminacl", "submitacl")


def mapped(objects: Sequence[Obj]) -> Mapped:
    found = Mapped()
    namespaces = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"}
    for obj in objects:
        text = (obj.get("data") or {}).get("queues.yaml") if obj["kind"] == "ConfigMap" else None
        if text is None or (obj.get("metadata") or {}).get("name") != CONFIG_MAP:
            continue
        try:
            document = next(goyaml.strict_documents(str(text).encode()), None) or {}
        except ValueError as problem:
            found.notes.append(f"ConfigMap {CONFIG_MAP}: {problem}")
            continue
        for partition in document.get("partitions") or ():
            if partition.get("placementrules"):
                found.notes.append(f"partition {partition.get('name')}: placement rules could not be mapped")
            for queue in partition.get("queues") or ():
                _queue(queue, "", "", namespaces, found)
    return found


def _queue(queue: Mapping[str, Any], path: str, parent: str, namespaces: set[str], found: Mapped) -> None:
    name, children = str(queue.get("name", "")), queue.get("queues") or ()
    resources = queue.get("resources") or {}
    share = {
        "parent": parent,
        "reserved": amounts(_named(resources.get("guaranteed") or {})),
        "hard": amounts(_named(resources.get("max") or {})),
    }
    found.lacks(f"queue {path}{name}", set(queue) & set(_UNMAPPED))
    if not children and name in namespaces:
        found.consumer(name, **share)
        return
    is_root = name == "root" and not path
    group = parent if is_root else found.group(f"queue-{path}{name}", **share)
    for child in children:
        _queue(child, "" if is_root else f"{path}{name}.", group, namespaces, found)


def _named(resources: Mapping[str, Any]) -> dict[str, str]:
    """Memory in YuniKorn is a quantity; cpu may be `vcore`, in cores or with `m`."""
    return {_RESOURCES.get(name, name): str(amount) for name, amount in resources.items()}

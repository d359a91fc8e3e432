"""YuniKorn: the tree of queues in its ConfigMap becomes groups; a queue without children that is called like a
namespace becomes that namespace's Consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.api.quantity import QuantityError, parse
from fairlead.golang import yaml as goyaml
from fairlead.study.queues.mapped import Mapped, amounts
from fairlead.study.reading import mapping_at, mappings

CONFIG_MAP: Final = "yunikorn-configs"
#: Their names of resources, and ours.
_RESOURCES: Final = {"vcore": "cpu", "memory": "memory"}
_UNMAPPED: Final = ("maxapplications", "properties", "limits", "childtemplate", "adminacl", "submitacl")


def mapped(objects: Sequence[Obj]) -> Mapped:
    found = Mapped()
    namespaces = {str(mapping_at(obj, "metadata").get("name")) for obj in objects if obj["kind"] == "Namespace"}
    for obj in objects:
        text = mapping_at(obj, "data").get("queues.yaml") if obj["kind"] == "ConfigMap" else None
        if text is None or mapping_at(obj, "metadata").get("name") != CONFIG_MAP:
            continue
        try:
            document = next(goyaml.strict_documents(str(text).encode()), None)
        except ValueError as problem:
            found.notes.append(f"ConfigMap {CONFIG_MAP}: {problem}")
            continue
        for partition in mappings(mapping_at(document).get("partitions")):
            if partition.get("placementrules"):
                found.notes.append(f"partition {partition.get('name')}: placement rules could not be mapped")
            for queue in mappings(partition.get("queues")):
                _queue(queue, "", "", namespaces, found)
    return found


def _queue(queue: Mapping[str, Any], path: str, parent: str, namespaces: set[str], found: Mapped) -> None:
    name, children = str(queue.get("name", "")), mappings(queue.get("queues"))
    guaranteed, most = (_named(mapping_at(queue, "resources", key)) for key in ("guaranteed", "max"))
    lacking = set(queue) & set(_UNMAPPED) | {
        f"{resource}: {amount}"
        for resource, amount in (*guaranteed.items(), *most.items())
        if resource == "pods" or not _is_quantity(amount)
    }
    share = {"parent": parent, "reserved": _divisible(guaranteed), "hard": _divisible(most)}
    found.lacks(f"queue {path}{name}", lacking)
    if not children and name in namespaces:
        found.consumer(name, **share)
        return
    is_root = name == "root" and not path
    if not children and not is_root:
        found.notes.append(f"queue {path}{name}: no namespace is called like it, so who is in it is not known")
    group = parent if is_root else found.group(f"queue-{path}{name}", **share)
    for child in children:
        _queue(child, "" if is_root else f"{path}{name}.", group, namespaces, found)


def _divisible(resources: Mapping[str, str]) -> dict[str, str]:
    return amounts({name: amount for name, amount in resources.items() if _is_quantity(amount)})


def _is_quantity(text: str) -> bool:
    try:
        return parse(text).nanos >= 0
    except QuantityError:
        return False


def _named(resources: Mapping[str, Any]) -> dict[str, str]:
    """Memory in YuniKorn is a quantity; cpu may be `vcore`, in cores or with `m`."""
    return {_RESOURCES.get(name, name): str(amount) for name, amount in resources.items()}

from __future__ import annotations

import pytest

from fairlead.server.admission import chain
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation
from tests.server.admission_world import NODES, World, creation, pod, run


def test_plugins_run_in_the_order_of_kube_apiserver() -> None:
    built = chain.build(World().dependencies)
    order = [name for name, _ in chain.PLUGINS]
    names = [plugin.name for plugin in built.plugins]
    assert names == [name for name in order if name in names]
    assert names[0] == "NamespaceLifecycle"
    assert names[-1] == "ResourceQuota"


def test_every_plugin_answers_to_the_name_in_the_table() -> None:
    for name, make in chain.PLUGINS:
        if not isinstance(make, str):
            assert make(World().dependencies).name == name


def test_a_disabled_plugin_does_not_run() -> None:
    built = chain.build(World().dependencies, ["ServiceAccount", "PodSecurity", "NamespaceLifecycle"])
    attributes = creation(pod())
    run(built.admit(attributes))
    run(built.validate(attributes))
    assert "serviceAccountName" not in attributes.spec


def test_an_unknown_plugin_is_named() -> None:
    with pytest.raises(ValueError, match="unknown admission plugin: LimitRangr; known are AlwaysAdmit, "):
        chain.build(World().dependencies, ["LimitRangr", "LimitRanger"])


def test_only_plugins_that_concern_a_kind_see_it() -> None:
    asked: list[str] = []

    class OnlyNodes(AdmissionPlugin):
        name = "OnlyNodes"
        resources = frozenset({"nodes"})

        async def admit(self, attributes: Attributes) -> None:
            asked.append(attributes.resource.plural)

    built = chain.Chain([OnlyNodes(World().dependencies)])
    run(built.admit(creation(pod())))
    run(built.admit(creation({"metadata": {"name": "n"}}, NODES)))
    run(built.admit(Attributes(Operation.DELETE, NODES, "", "n", {})))
    assert asked == ["nodes"]

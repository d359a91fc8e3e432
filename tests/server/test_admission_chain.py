from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from fairlead.client.kubeconfig import Access, render
from fairlead.server.admission import chain
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation
from fairlead.server.admission.configuration import AdmissionConfiguration, EventLimit
from fairlead.server.admission.image_policy_configuration import read_image_policy
from fairlead.server.metrics.admission import AdmissionMetrics
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
            assert make.name == name


def test_a_disabled_plugin_does_not_run() -> None:
    built = chain.build(World().dependencies, ["ServiceAccount", "PodSecurity", "NamespaceLifecycle"])
    attributes = creation(pod())
    run(built.admit(attributes))
    run(built.validate(attributes))
    assert "serviceAccountName" not in attributes.spec


def test_an_unknown_plugin_is_named() -> None:
    with pytest.raises(ValueError, match='disable-admission-plugins plugin "LimitRangr" is unknown'):
        chain.build(World().dependencies, ["LimitRangr", "LimitRanger"])


def test_everything_that_is_wrong_with_a_choice_is_told() -> None:
    with pytest.raises(ValueError, match="unknown") as refused:
        chain.check_choice(["NoSuch", "PodSecurity", "Priority", "JobValidation"], ["Priority", "PodSecurity"])
    assert str(refused.value) == (
        '[enable-admission-plugins plugin "NoSuch" is unknown, '
        "[PodSecurity Priority] in enable-admission-plugins and disable-admission-plugins overlapped, "
        'enable-admission-plugins plugin "JobValidation" is not there: it does something only behind a feature gate '
        "that is off by default]"
    )


def test_what_is_off_by_default_works_when_it_is_asked_for(tmp_path: Path) -> None:
    ordinary = {plugin.name for plugin in chain.build(World().dependencies).plugins}
    assert not ordinary & chain.OFF_BY_DEFAULT
    makeable = [name for name, make in chain.PLUGINS if not isinstance(make, str) and name in chain.OFF_BY_DEFAULT]
    file = tmp_path / "images.kubeconfig"
    file.write_text(render(Access("https://images")))
    configuration = AdmissionConfiguration(
        event_limits=(EventLimit(type="Server", qps=1, burst=1),),
        image_policy=read_image_policy({"imagePolicy": {"kubeConfigFile": str(file)}}),
    )
    asked = chain.build(replace(World().dependencies, configuration=configuration), enabled=makeable)
    assert {plugin.name for plugin in asked.plugins} == ordinary | set(makeable)


def test_only_plugins_that_concern_a_kind_see_it() -> None:
    asked: list[str] = []

    class OnlyNodes(AdmissionPlugin):
        name = "OnlyNodes"
        resources = frozenset({"nodes"})

        async def admit(self, attributes: Attributes) -> None:
            asked.append(attributes.resource.plural)

    built = chain.Chain([OnlyNodes(World().dependencies)], (), AdmissionMetrics())
    run(built.admit(creation(pod())))
    run(built.admit(creation({"metadata": {"name": "n"}}, NODES)))
    run(built.admit(Attributes(Operation.DELETE, NODES, "", "n", {})))
    assert asked == ["nodes"]

"""Custom objects of which several versions are served: each version has its own schema, defaults and scale."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import Any

import pytest
import yaml

from fairlead.api.builtin import CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.encoded import copied
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.crds import naming
from fairlead.server.crds.definition import STRATEGY
from tests.played import played
from tests.server import crd_samples as samples
from tests.server.http_world import serving_in_a_thread
from tests.server.registry_world import NAMESPACE, World, run
from tests.server.test_crds import refusals_of_update

TEXT: Obj = {"type": "string"}


def _version(name: str, properties: Obj, *, storage: bool, **more: Any) -> Obj:
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    return samples.version(name, schema=schema, storage=storage, **more)


async def _served(world: World, *versions: Obj, **names: str) -> list[Resource]:
    crd = samples.crd(*versions)
    crd["spec"]["names"] |= names
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    await asyncio.sleep(1)
    return [_row(world, version["name"]) for version in versions]


def _row(world: World, version: str) -> Resource:
    found = world.registry.catalogue.find("example.com", version, "widgets")
    assert found is not None
    return found[1].resource


def _widget(version: str, spec: Obj) -> Obj:
    return samples.widget(spec) | {"apiVersion": f"example.com/{version}"}


async def _spec(world: World, row: Resource) -> Any:
    return (await world.api.get(row, "w", NAMESPACE)).obj()["spec"]


@played(run)
async def test_defaults_are_those_of_the_version_that_is_sent_and_of_the_one_that_is_stored(world: World) -> None:
    sent = {"own": TEXT | {"default": "sent"}, "theirs": TEXT, "only": TEXT | {"default": "here"}}
    stored = {"own": TEXT | {"default": "stored"}, "theirs": TEXT | {"default": "stored"}}
    first, _ = await _served(world, _version("v1", sent, storage=False), _version("v2", stored, storage=True))
    made = await world.create(first, _widget("v1", {}))
    assert made["spec"] == {"own": "sent", "theirs": "stored"}  # v2 knows nothing of the third
    assert await _spec(world, first) == made["spec"]


@played(run)
async def test_a_default_that_was_never_written_goes_with_the_definition_that_had_it(world: World) -> None:
    plain, with_default = {"c": TEXT}, {"c": TEXT | {"default": "C"}}
    (row,) = await _served(world, _version("v1", plain, storage=True))
    await world.create(row, _widget("v1", {}))
    for properties, spec in ((with_default, {"c": "C"}), ({}, {}), (plain, {})):
        version = _version("v1", properties, storage=True)
        patch = {"spec": {"versions": [version]}}
        await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", patch)
        await asyncio.sleep(1)
        assert await _spec(world, row) == spec


@played(run)
async def test_a_field_is_there_again_once_a_definition_knows_it_again(world: World) -> None:
    (row,) = await _served(world, _version("v1", {"c": TEXT}, storage=True))
    await world.create(row, _widget("v1", {"c": "written"}))
    for properties, spec in (({}, {}), ({"c": TEXT}, {"c": "written"})):
        patch = {"spec": {"versions": [_version("v1", properties, storage=True)]}}
        await world.api.patch(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", "", patch)
        await asyncio.sleep(1)
        assert await _spec(world, row) == spec


@played(run)
async def test_the_scale_is_that_of_the_version_in_which_it_is_asked_for(world: World) -> None:
    def version(name: str, *, storage: bool) -> Obj:
        scale = {"specReplicasPath": f".spec.{name}", "statusReplicasPath": ".status.replicas"}
        counts = {field: {"type": "integer"} for field in ("v1", "v2")}
        return _version(name, counts, storage=storage, subresources={"status": {}, "scale": scale})

    first, second = await _served(world, version("v1", storage=True), version("v2", storage=False))
    await world.create(first, _widget("v1", {"v1": 1, "v2": 2}))
    for row, replicas in ((first, 1), (second, 2)):
        scale = (await world.api.get(row, "w", NAMESPACE, "scale")).obj()
        assert scale["spec"] == {"replicas": replicas}
        scale["spec"]["replicas"] += 10
        assert (await world.api.update(row, scale, subresource="scale")).obj()["spec"]["replicas"] == replicas + 10
    assert await _spec(world, first) == {"v1": 11, "v2": 12}


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
def test_a_list_has_the_kind_that_its_definition_says_and_its_items_their_own(media_type: str) -> None:
    crd = samples.crd()
    crd["spec"]["names"]["listKind"] = "Toolbox"
    path = "/apis/example.com/v1/namespaces/default/widgets"
    with serving_in_a_thread() as server:
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        server.soon(lambda: server.ask("POST", path, samples.widget({})).code == HTTPStatus.CREATED)
        listed = yaml.safe_load(server.ask("GET", path, headers={"Accept": media_type}).body)
    assert (listed["apiVersion"], listed["kind"]) == ("example.com/v1", "Toolbox")
    assert [(item["apiVersion"], item["kind"]) for item in listed["items"]] == [("example.com/v1", "Widget")]


# --- a conversion webhook that nobody can trust ---------------------------------------------------------------------


def _converted_by(bundle: str) -> Obj:
    service = {"name": "converter", "namespace": "default"}
    crd = samples.crd()
    webhook = {"clientConfig": {"service": service, "caBundle": bundle}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    STRATEGY.default(crd)
    return crd


def _established(crd: Obj) -> Obj:
    status = naming.settled(crd, naming.NamesInUse([crd]), samples.STAMP)
    assert status is not None
    found: Obj = next(condition for condition in status["conditions"] if condition["type"] == "Established")
    return found


@pytest.mark.parametrize("bundle", ["bm8=", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"])
def test_a_definition_whose_bundle_is_no_good_is_not_established(bundle: str) -> None:
    condition = _established(_converted_by(bundle))
    assert (condition["status"], condition["reason"]) == ("False", "InvalidCABundle")
    assert condition["message"] == "The conversion webhook CABundle is invalid"
    assert _established(_converted_by(""))["status"] == "True"


def test_an_established_definition_takes_no_such_bundle_but_may_keep_it() -> None:
    crd = _converted_by("")
    crd["status"] = naming.settled(crd, naming.NamesInUse([crd]), samples.STAMP)
    wrong = copied(crd)
    wrong["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = "bm8="
    why = "unable to load root certificates: unable to parse bytes as PEM block"
    path = "spec.conversion.webhookClientConfig.caBundle"
    assert refusals_of_update(wrong, crd) == [f'{path}: Invalid value: "2 bytes": {why}']
    assert refusals_of_update(wrong, wrong) == []


def test_a_definition_without_a_bundle_reads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the system take 13 ms to be read, at each write of a definition, while everybody waits."""

    def read(context: ssl.SSLContext) -> None:
        raise AssertionError("the system's authorities are read")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", read)
    crd = samples.crd()
    STRATEGY.default(crd)
    assert _established(crd)["status"] == "True"
    assert refusals_of_update(crd, crd) == []

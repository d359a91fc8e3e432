"""An operator as kopf's users write it: creation, update, a timer, a daemon's finalizer, admission."""

from __future__ import annotations

import os
from typing import Any

import kopf
from kubernetes import client, config


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.peering.name = "toys"
    settings.peering.mandatory = True
    # Where a deletion meets a timer whose patch is under way, and that patch changes nothing, no event comes to wake
    # the operator: it looks again after this time, a minute unless told otherwise.
    settings.background.cancellation_polling = 0.5
    if certificate := os.environ.get("WEBHOOK_CERTIFICATE"):
        settings.admission.managed = "toys.example.com"
        key, authority = os.environ["WEBHOOK_KEY"], os.environ["WEBHOOK_CA"]
        settings.admission.server = kopf.WebhookServer(
            addr="127.0.0.1", host="127.0.0.1", certfile=certificate, pkeyfile=key, cafile=authority
        )


@kopf.on.create("toys")
def made(spec: Any, name: str, patch: kopf.Patch, **_: Any) -> dict[str, str]:
    """A child that goes with it; the result is in its status."""
    meta: dict[str, Any] = {"name": f"{name}-child"}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(spec)}
    kopf.adopt(child)
    config.load_kube_config(os.environ["KUBECONFIG"])
    client.CoreV1Api().create_namespaced_config_map(meta["namespace"], child)
    return {"child": meta["name"]}


@kopf.on.update("toys", field="spec.color")
def painted(new: str, patch: kopf.Patch, **_: Any) -> None:
    patch.status["color"] = new


@kopf.timer("toys", interval=0.2)
def ticked(status: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["ticks"] = min(status.get("ticks", 0) + 1, 3)


@kopf.on.delete("toys")
def broken(name: str, **_: Any) -> None:
    """Its presence alone gives each toy a finalizer."""


if os.environ.get("WEBHOOK_CERTIFICATE"):

    @kopf.on.validate("toys")
    def no_green(spec: Any, warnings: list[str], **_: Any) -> None:
        if spec.get("color") == "green":
            raise kopf.AdmissionError("green is sold out", code=422)
        if not spec.get("color"):
            warnings.append("a toy without a color")

    @kopf.on.mutate("toys")
    def weigh(spec: Any, patch: kopf.Patch, **_: Any) -> None:
        if "weight" not in spec:
            patch.spec["weight"] = "1"

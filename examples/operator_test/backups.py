"""An operator as kopf's users write it: for every Backup it makes a Job, and says in the status when that is done."""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.persistence.finalizer = "backups.example.com/finalizer"
    settings.posting.enabled = False


@kopf.on.create("backups")
def begin(name: str, namespace: str, spec: Any, patch: kopf.Patch, **_: Any) -> None:
    container = {"name": "dump", "image": "pg-dump", "args": [spec["database"]]}
    container["resources"] = {"requests": {"cpu": spec.get("cpu", "1")}}
    annotations = {
        "sim.fairlead.dev/lifetime-seconds": str(spec.get("seconds", 1))
    }  # how long a simulated node runs it
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": f"{name}-dump"}, "spec": {"backoffLimit": 2, "template": template}}
    kopf.adopt(job)
    kubernetes.client.BatchV1Api().create_namespaced_job(namespace, job)
    patch.status["phase"] = "Running"


@kopf.on.field("jobs", field="status.succeeded", value=kopf.PRESENT)
def end(namespace: str, meta: Any, **_: Any) -> None:
    for owner in meta.get("ownerReferences", ()):
        if owner["kind"] == "Backup":
            done = {"status": {"phase": "Complete"}}
            kubernetes.client.CustomObjectsApi().patch_namespaced_custom_object(
                "example.com", "v1", namespace, "backups", owner["name"], done
            )

"""Dumps of clusters as they are found in the world, settled: what kubeadm, kind, EKS, GKE, k3s and OpenShift run of
their own, and what people run on them, in good and in bad state.

Pods are made of the templates of their owners as the real controllers make them, with what admission adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from fairlead.api.objects import Obj
from tests.study.clusters import namespace

TIME, BEFORE, LONG_AGO = "2026-03-01T12:00:00Z", "2026-03-01T11:00:00Z", "2025-11-03T08:15:00Z"
#: What the controller adds to every daemon pod, in its order.
DAEMON_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
#: What admission adds to every other pod.
TOLERATED_FOR_A_WHILE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
EVERYWHERE = [{"operator": "Exists"}]
CONTROL_PLANE_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def node(
    name: str, labels: Obj | None = None, *, ready: str = "True", taints: Iterable[Obj] = (), cordoned: bool = False
) -> Obj:
    amounts = {"cpu": "4", "memory": "16393260Ki", "pods": "110", "ephemeral-storage": "81106868Ki"}
    allocatable = {**amounts, "cpu": "3920m", "memory": "14978092Ki"}
    standard = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    fine = [
        {"type": f"{what}Pressure", "status": "False" if ready == "True" else "Unknown", "reason": f"NodeHas{what}"}
        for what in ("Memory", "Disk", "PID")
    ]
    conditions = [*fine, {"type": "Ready", "status": ready, "reason": "KubeletReady", "message": "kubelet is posting"}]
    for condition in conditions:
        condition |= {"lastHeartbeatTime": TIME, "lastTransitionTime": LONG_AGO}
    found = [*taints]
    if cordoned:
        found.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": LONG_AGO})
    if ready != "True":
        key = "node.kubernetes.io/not-ready" if ready == "False" else "node.kubernetes.io/unreachable"
        found += [{"key": key, "effect": effect, "timeAdded": LONG_AGO} for effect in ("NoSchedule", "NoExecute")]
    spec: Obj = {"podCIDR": "10.244.0.0/24", "providerID": f"kind://docker/{name}"}
    if found:
        spec["taints"] = found
    if cordoned:
        spec["unschedulable"] = True
    meta = {"name": name, "uid": f"node-{name}", "creationTimestamp": LONG_AGO, "labels": standard | (labels or {})}
    meta["annotations"] = {"node.alpha.kubernetes.io/ttl": "0"}
    status = {"capacity": amounts, "allocatable": allocatable, "conditions": conditions}
    status["addresses"] = [{"type": "InternalIP", "address": "172.18.0.4"}, {"type": "Hostname", "address": name}]
    status["nodeInfo"] = {"kubeletVersion": "v1.34.2", "operatingSystem": "linux", "architecture": "amd64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def container(name: str = "app", cpu: str = "100m", **more: Any) -> Obj:
    """With all that the server fills in."""
    defaults = {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    requests = {"requests": {"cpu": cpu, "memory": "70Mi"}}
    return {"name": name, "image": f"registry.example/{name}:v1", "resources": requests, **defaults, **more}


def template(labels: Obj, *containers: Obj, **spec: Any) -> Obj:
    defaults = {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    return {"metadata": {"labels": labels}, "spec": {"containers": list(containers), **defaults, **spec}}


def meta(name: str, namespace_: str, kind: str, **more: Any) -> Obj:
    uid = f"{kind.lower()}-{namespace_}-{name}"
    return {"name": name, "namespace": namespace_, "uid": uid, "creationTimestamp": LONG_AGO, "generation": 1, **more}


def owned_by(owner: Obj) -> list[Obj]:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    return [reference]


def obj(version: str, kind: str, metadata: Obj, spec: Any = None, status: Any = None) -> Obj:
    found: Obj = {"apiVersion": version, "kind": kind, "metadata": metadata}
    return found | ({} if spec is None else {"spec": spec}) | ({} if status is None else {"status": status})


RUNNING: Obj = {"running": {"startedAt": BEFORE}}


def pod(owner: Obj, name: str, place: str, of: Obj, *, labels: Obj | None = None, **how: Any) -> Obj:
    """A pod of a template, with what the API server and the kubelet added; `how`: `status`, `states`, `meta`."""
    template_ = deepcopy(of)
    namespace_ = owner["metadata"]["namespace"]
    metadata = meta(name, namespace_, "Pod", labels=template_["metadata"].get("labels", {}) | (labels or {}))
    metadata |= {"ownerReferences": owned_by(owner)} | how.get("meta", {})
    if owner["kind"] != "StatefulSet":
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    spec = template_["spec"]
    token = {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for each in spec["containers"]:
        each["volumeMounts"] = [*each.get("volumeMounts", []), {**token, "readOnly": True}]
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    sources.append({"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}})
    projected = {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": sources}}
    spec["volumes"] = [*spec.get("volumes", []), projected]
    spec |= {"enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority", "priority": how.get("priority", 0)}
    spec |= {"serviceAccountName": "default", "serviceAccount": "default"}
    if place:
        spec["nodeName"] = place
    if owner["kind"] == "DaemonSet":
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [place]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = spec.get("affinity", {}) | {"nodeAffinity": required}
        spec["tolerations"] = [*spec.get("tolerations", []), *DAEMON_TOLERATIONS]
    else:
        spec["tolerations"] = [*spec.get("tolerations", []), *TOLERATED_FOR_A_WHILE]
    status = running(spec["containers"], how.get("states", {})) if place else pending()
    return obj("v1", "Pod", metadata, spec, status | how.get("status", {}))


def running(containers: Iterable[Obj], states: Obj) -> Obj:
    statuses = []
    for each in containers:
        shown = {"name": each["name"], "ready": True, "started": True, "restartCount": 0, "state": RUNNING}
        shown |= {"image": each["image"], "imageID": "sha256:1", "containerID": f"containerd://{each['name']}"}
        statuses.append(shown | states.get(each["name"], {}))
    is_ready = all(status["ready"] for status in statuses)
    conditions = [
        {"type": type_, "status": "True" if is_ready or type_ in _ALWAYS else "False", "lastTransitionTime": BEFORE}
        for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    never_ran = all("waiting" in status["state"] and not status["restartCount"] for status in statuses)
    phase = "Pending" if never_ran else "Running"
    status = {"phase": phase, "qosClass": "Burstable", "startTime": LONG_AGO, "hostIP": "172.18.0.4"}
    return status | {"podIP": "10.244.0.9", "conditions": conditions, "containerStatuses": statuses}


_ALWAYS = ("PodReadyToStartContainers", "Initialized", "PodScheduled")


def pending() -> Obj:
    text = (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available"
    )
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    return {"phase": "Pending", "qosClass": "Burstable", "conditions": [{**condition, "lastTransitionTime": BEFORE}]}


def ended(phase: str, exit_code: int, **status: Any) -> Obj:
    state = {"terminated": {"exitCode": exit_code, "reason": "Completed", "startedAt": LONG_AGO, "finishedAt": BEFORE}}
    shown = {"name": "app", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state}
    return {"phase": phase, "containerStatuses": [shown], **status}


#: A container that crashes over and over, and one whose image is not to be had.
CRASHING = {
    "ready": False,
    "started": False,
    "restartCount": 41,
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
    "lastState": {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": "2026-03-01T11:58:40Z",
            "finishedAt": "2026-03-01T11:58:43Z",
        }
    },
}
NO_IMAGE = {
    "ready": False,
    "started": False,
    "state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/x:v1"'}},
}
UNREADY = {"ready": False, "started": True}


def revision(owner: Obj, hash_: str, of: Obj, number: int = 1, *, nulls: bool = False) -> Obj:
    """As the controllers keep a template. `nulls`: as they did before Kubernetes 1.34."""
    kept = deepcopy(of)
    if nulls:
        kept["metadata"] = {"creationTimestamp": None, **kept["metadata"]}
    data = {"spec": {"template": {"$patch": "replace", **kept}}}
    name = owner["metadata"]["name"]
    label = "controller-revision-hash" if owner["kind"] == "DaemonSet" else "controller.kubernetes.io/hash"
    metadata = meta(f"{name}-{hash_}", owner["metadata"]["namespace"], "ControllerRevision")
    metadata |= {"labels": kept["metadata"].get("labels", {}) | {label: hash_}, "ownerReferences": owned_by(owner)}
    return obj("apps/v1", "ControllerRevision", metadata) | {"data": data, "revision": number}


def daemon_set(
    name: str, places: Iterable[str], namespace_: str = "kube-system", *, nulls: bool = False, **spec: Any
) -> list[Obj]:
    places, labels, hash_ = list(places), {"k8s-app": name}, "6d8b4c9f7"
    of = template(labels, container(name), **spec)
    annotations = {"deprecated.daemonset.template.generation": "1"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    body = {"revisionHistoryLimit": 10, "selector": {"matchLabels": labels}, "template": of, "updateStrategy": strategy}
    counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "numberAvailable")
    status = dict.fromkeys((*counts, "updatedNumberScheduled"), len(places))
    status |= {"numberMisscheduled": 0, "observedGeneration": 1}
    owner = obj("apps/v1", "DaemonSet", meta(name, namespace_, "DaemonSet", annotations=annotations), body, status)
    own = {"controller-revision-hash": hash_, "pod-template-generation": "1"}
    pods = [pod(owner, f"{name}-{number}x7q", place, of, labels=own) for number, place in enumerate(places)]
    return [owner, revision(owner, hash_, of, nulls=nulls), *pods]


def stateful_set(name: str, places: Iterable[str], namespace_: str, *, nulls: bool = False) -> list[Obj]:
    """With a claim for each pod, and the volume that it is bound to."""
    places, labels, hash_ = list(places), {"app": name}, "5b9d8c7f64"
    mounted = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    of = template(labels, mounted)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}}
    claim |= {"storageClassName": "standard", "volumeMode": "Filesystem"}
    claims = [obj("v1", "PersistentVolumeClaim", {"name": "data"}, claim, {"phase": "Pending"})]
    body = {
        "podManagementPolicy": "OrderedReady",
        "replicas": len(places),
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": labels},
        "serviceName": name,
        "template": of,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "volumeClaimTemplates": claims,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }
    counts = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    status: Obj = {**dict.fromkeys(counts, len(places)), "observedGeneration": 1, "collisionCount": 0}
    status |= {"currentRevision": f"{name}-{hash_}", "updateRevision": f"{name}-{hash_}"}
    owner = obj("apps/v1", "StatefulSet", meta(name, namespace_, "StatefulSet"), body, status)
    found = [owner, revision(owner, hash_, of, nulls=nulls)]
    for number, place in enumerate(places):
        own = {"controller-revision-hash": f"{name}-{hash_}", "statefulset.kubernetes.io/pod-name": f"{name}-{number}"}
        own["apps.kubernetes.io/pod-index"] = str(number)
        made = pod(owner, f"{name}-{number}", place, of, labels=own)
        made["spec"]["volumes"].insert(
            0, {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}-{number}"}}
        )
        made["spec"] |= {"hostname": f"{name}-{number}", "subdomain": name}
        found += [made, *bound_claim(f"data-{name}-{number}", namespace_, claim, labels, place)]
    return found


def bound_claim(name: str, namespace_: str, spec: Obj, labels: Obj, place: str) -> list[Obj]:
    volume = f"pvc-{namespace_}-{name}"
    done = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": place}
    metadata = meta(name, namespace_, "PersistentVolumeClaim", labels=labels, annotations=done)
    metadata["finalizers"] = ["kubernetes.io/pvc-protection"]
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}}
    claim = obj("v1", "PersistentVolumeClaim", metadata, spec | {"volumeName": volume}, status)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name, "namespace": namespace_}
    body = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "8Gi"},
        "claimRef": reference | {"uid": metadata["uid"]},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{name}"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "standard",
        "volumeMode": "Filesystem",
    }
    own: Obj = {"name": volume, "uid": f"volume-{volume}", "creationTimestamp": LONG_AGO}
    own |= {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"]}
    return [claim, obj("v1", "PersistentVolume", own, body, {"phase": "Bound"})]


def deployment(
    name: str,
    places: Iterable[str],
    namespace_: str = "shop",
    *,
    states: Obj | None = None,
    old: int = 2,
    probe: bool = False,
    **spec: Any,
) -> list[Obj]:
    """With the replica sets of `old` earlier revisions. A place may be empty: that pod waits."""
    places, labels, is_well = list(places), {"app": name}, not states
    count, ready = len(places), sum(map(bool, places)) if is_well else 0
    checked: Obj = {"readinessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10}}
    of = template(labels, container(**(checked if probe else {})), **spec)
    number = {"deployment.kubernetes.io/revision": str(old + 1)}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    body: Obj = {"replicas": count, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    body |= {"selector": {"matchLabels": labels}, "strategy": strategy, "template": of}
    status: Obj = {"observedGeneration": 1, "replicas": count, "updatedReplicas": count}
    if ready:
        status |= {"readyReplicas": ready, "availableReplicas": ready}
    if count > ready:
        status["unavailableReplicas"] = count - ready
    times = {"lastUpdateTime": LONG_AGO, "lastTransitionTime": LONG_AGO}
    status["conditions"] = [
        {"type": "Available", "status": "True" if is_well else "False", "reason": "MinimumReplicasAvailable", **times},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", **times},
    ]
    owner = obj("apps/v1", "Deployment", meta(name, namespace_, "Deployment", annotations=number), body, status)
    found = [owner]
    for each in range(1, old + 2):
        hash_ = f"{each}c9d8f7b6" if each <= old else "7d4b8f9c65"
        hashed = {**labels, "pod-template-hash": hash_}
        own = deepcopy(of)
        own["metadata"]["labels"] = hashed
        if each <= old:
            own["spec"]["containers"][0]["image"] = f"registry.example/app:v0.{each}"
        is_current = each == old + 1
        sizes = {"deployment.kubernetes.io/desired-replicas": str(count)}
        sizes |= {
            "deployment.kubernetes.io/max-replicas": str(count + 1),
            "deployment.kubernetes.io/revision": str(each),
        }
        metadata = meta(f"{name}-{hash_}", namespace_, "ReplicaSet", labels=hashed, annotations=sizes)
        metadata["ownerReferences"] = owned_by(owner)
        body = {"replicas": count if is_current else 0, "selector": {"matchLabels": hashed}, "template": own}
        status = {"observedGeneration": 1, "replicas": count if is_current else 0}
        if is_current:
            status["fullyLabeledReplicas"] = count
            status |= {"readyReplicas": ready, "availableReplicas": ready} if ready else {}
        replica_set = obj("apps/v1", "ReplicaSet", metadata, body, status)
        found.append(replica_set)
        if is_current:
            found += [
                pod(replica_set, f"{name}-{hash_}-{number:05d}", place, own, states=states or {})
                for number, place in enumerate(places)
            ]
    return found


def mirror_pod(name: str, place: str) -> Obj:
    """Of a static pod: its node owns it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": place, "uid": f"node-{place}", "controller": True}
    hash_ = {"kubernetes.io/config.hash": "4a7c", "kubernetes.io/config.mirror": "4a7c"}
    annotations = hash_ | {"kubernetes.io/config.seen": LONG_AGO, "kubernetes.io/config.source": "file"}
    labels = {"component": name, "tier": "control-plane"}
    metadata = meta(f"{name}-{place}", "kube-system", "Pod", annotations=annotations, labels=labels)
    containers = [container(name, cpu="250m")]
    spec = template({}, *containers)["spec"] | {"nodeName": place, "hostNetwork": True, "priority": 2000001000}
    spec |= {
        "priorityClassName": "system-node-critical",
        "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
    }
    metadata["ownerReferences"] = [owner]
    return obj("v1", "Pod", metadata, spec, running(containers, {}))


def finished_job(name: str, namespace_: str, place: str, *, failed: bool = False, **spec: Any) -> list[Obj]:
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name, "controller-uid": f"job-{namespace_}-{name}"}
    labels["batch.kubernetes.io/controller-uid"] = labels["controller-uid"]
    of = template(labels, container(), restartPolicy="Never")
    body = {"completions": 1, "parallelism": 1, "backoffLimit": 0, "completionMode": "NonIndexed", "suspend": False}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": labels["controller-uid"]}}
    body |= {"selector": selector, "template": of, "podReplacementPolicy": "TerminatingOrFailed"} | spec
    end = "Failed" if failed else "Complete"
    conditions = [{"type": end, "status": "True", "lastProbeTime": BEFORE, "lastTransitionTime": BEFORE}]
    status = {
        "startTime": LONG_AGO,
        "conditions": conditions,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    status |= {"failed": 1} if failed else {"succeeded": 1, "completionTime": BEFORE}
    owner = obj("batch/v1", "Job", meta(name, namespace_, "Job", labels=labels), body, status)
    phase = ended("Failed", 1) if failed else ended("Succeeded", 0)
    return [owner, pod(owner, f"{name}-9k2lm", place, of, status=phase)]


def running_job(name: str, namespace_: str, place: str) -> list[Obj]:
    job, made = finished_job(name, namespace_, place)
    job["status"] = {"startTime": BEFORE, "active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}}
    return [job, made | {"status": running(made["spec"]["containers"], {})}]


def cron_job(name: str, namespace_: str, schedule: str = "0 3 1 * *") -> Obj:
    of = template({}, container(), restartPolicy="OnFailure")
    body = {
        "schedule": schedule,
        "concurrencyPolicy": "Forbid",
        "suspend": False,
        "jobTemplate": {"spec": {"template": of}},
    }
    body |= {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    status = {"lastScheduleTime": "2026-03-01T03:00:00Z", "lastSuccessfulTime": "2026-03-01T03:00:09Z"}
    return obj("batch/v1", "CronJob", meta(name, namespace_, "CronJob"), body, status)


def autoscaler(name: str, namespace_: str, count: int) -> Obj:
    """One whose metrics nobody serves."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    body = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
    times = {"lastTransitionTime": LONG_AGO}
    conditions = [
        {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", **times},
        {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", **times},
    ]
    status = {"currentReplicas": count, "desiredReplicas": count, "conditions": conditions, "currentMetrics": None}
    metadata = meta(name, namespace_, "HorizontalPodAutoscaler")
    return obj("autoscaling/v2", "HorizontalPodAutoscaler", metadata, body, status)


def budget(name: str, namespace_: str, healthy: int, **bound: Any) -> Obj:
    body = {**bound, "selector": {"matchLabels": {"app": name}}}
    status = {"currentHealthy": healthy, "desiredHealthy": 1, "disruptionsAllowed": max(healthy - 1, 0)}
    status |= {"expectedPods": healthy, "observedGeneration": 1}
    return obj("policy/v1", "PodDisruptionBudget", meta(name, namespace_, "PodDisruptionBudget"), body, status)


def custom(version: str, kind: str, name: str, namespace_: str) -> Obj:
    return obj(version, kind, meta(name, namespace_, kind), {"replicas": 1})


# -- clusters


def kubeadm() -> list[Obj]:
    """A static control plane, kube-proxy, flannel and coredns; old pods, and a worker that is cordoned."""
    every = ["cp-1", "worker-1", "worker-2"]
    role = {"node-role.kubernetes.io/control-plane": "", "node.kubernetes.io/exclude-from-external-load-balancers": ""}
    found = [
        node("cp-1", role, taints=[CONTROL_PLANE_TAINT]),
        node("worker-1"),
        node("worker-2", cordoned=True),
        *map(namespace, ("default", "kube-system", "shop")),
        *(mirror_pod(name, "cp-1") for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")),
        *daemon_set(
            "kube-proxy", every, nodeSelector={"kubernetes.io/os": "linux"}, tolerations=EVERYWHERE, nulls=True
        ),
        *daemon_set(
            "kube-flannel", every, hostNetwork=True, tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]
        ),
        *deployment(
            "coredns", ["cp-1", "cp-1"], "kube-system", tolerations=[CONTROL_PLANE_TAINT | {"operator": "Exists"}]
        ),
        *deployment("web", ["worker-1", "worker-2", "worker-1"]),
        budget("web", "shop", 3, minAvailable=1),
        autoscaler("web", "shop", 3),
        *stateful_set("db", ["worker-1", "worker-2"], "shop", nulls=True),
    ]
    evicted = deepcopy(next(each for each in found if each["metadata"]["name"] == "web-7d4b8f9c65-00000"))
    evicted["metadata"] |= {"name": "web-7d4b8f9c65-old00", "uid": "pod-evicted"}
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    return [*found, evicted]


def kind() -> list[Obj]:
    """All on nodes that are control plane and worker at once; jobs that are over, and one that waits."""
    places = ["kind-control-plane"]
    return [
        node("kind-control-plane", {"node-role.kubernetes.io/control-plane": ""}),
        *map(namespace, ("default", "kube-system", "local-path-storage", "shop")),
        *(mirror_pod(name, "kind-control-plane") for name in ("etcd", "kube-apiserver")),
        *daemon_set("kindnet", places, hostNetwork=True, tolerations=EVERYWHERE),
        *daemon_set("kube-proxy", places, hostNetwork=True, tolerations=EVERYWHERE),
        *deployment("local-path-provisioner", places, "local-path-storage", old=0),
        *finished_job("migrate", "shop", "kind-control-plane"),
        *finished_job("broken", "shop", "kind-control-plane", failed=True),
        *finished_job("short-lived", "shop", "kind-control-plane", ttlSecondsAfterFinished=200_000),
        *running_job("training", "shop", "kind-control-plane"),
        cron_job("report", "shop"),
    ]


def eks() -> list[Obj]:
    """Managed node groups, aws-node with many containers, Argo Rollouts, and Karpenter's objects."""
    places = ["ip-10-0-1-7.ec2.internal", "ip-10-0-2-9.ec2.internal"]
    labels = {
        "eks.amazonaws.com/nodegroup": "general",
        "node.kubernetes.io/instance-type": "m6i.xlarge",
        "topology.kubernetes.io/region": "us-east-1",
    }
    zones = [{"topology.kubernetes.io/zone": zone} for zone in ("us-east-1a", "us-east-1b")]
    in_linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    no_fargate = {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["fargate", "auto"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [in_linux, no_fargate]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    rollout = custom("argoproj.io/v1alpha1", "Rollout", "checkout", "shop")
    hashed = {"app": "checkout", "rollouts-pod-template-hash": "65f7c"}
    of = template(hashed, container())
    body = {"replicas": 2, "selector": {"matchLabels": hashed}, "template": of}
    status = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "fullyLabeledReplicas": 2}
    metadata = meta("checkout-65f7c", "shop", "ReplicaSet", labels=hashed, ownerReferences=owned_by(rollout))
    replica_set = obj("apps/v1", "ReplicaSet", metadata, body, status | {"observedGeneration": 1})
    return [
        *(node(place, labels | zone) for place, zone in zip(places, zones, strict=True)),
        *map(namespace, ("default", "kube-system", "shop")),
        *daemon_set("aws-node", places, affinity=affinity, hostNetwork=True, tolerations=EVERYWHERE),
        *daemon_set("kube-proxy", places, affinity=affinity, hostNetwork=True, tolerations=EVERYWHERE),
        rollout,
        replica_set,
        *(pod(replica_set, f"checkout-65f7c-{number}", place, of) for number, place in enumerate(places)),
        *deployment("coredns", places, "kube-system", affinity=affinity),
        custom("karpenter.sh/v1", "NodePool", "general", ""),
    ]


def gke() -> list[Obj]:
    """A node pool with a taint of its own, daemon sets for nodes that are not there, and a node that is not ready."""
    places = ["gke-prod-default-pool-a1", "gke-prod-default-pool-b2"]
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    pool = {"cloud.google.com/gke-nodepool": "default-pool", "cloud.google.com/gke-os-distribution": "cos"}
    accelerated = {"cloud.google.com/gke-nodepool": "gpu", "cloud.google.com/gke-accelerator": "nvidia-l4"}
    return [
        node(places[0], pool),
        node(places[1], pool),
        node("gke-prod-gpu-c3", accelerated, taints=[gpu]),
        node("gke-prod-default-pool-gone", pool, ready="Unknown"),
        *map(namespace, ("default", "kube-system", "gmp-system", "shop")),
        *(mirror_pod("kube-proxy", place) for place in places),
        *daemon_set(
            "fluentbit-gke", [*places, "gke-prod-gpu-c3", "gke-prod-default-pool-gone"], tolerations=EVERYWHERE
        ),
        *daemon_set("metadata-proxy", [], nodeSelector={"cloud.google.com/metadata-proxy-ready": "true"}),
        *daemon_set("nvidia-gpu-device-plugin", ["gke-prod-gpu-c3"], nodeSelector=accelerated, tolerations=EVERYWHERE),
        *daemon_set("collector", places, "gmp-system", nodeSelector={"kubernetes.io/os": "linux"}),
        *deployment("kube-dns", places, "kube-system"),
        *deployment("web", [places[0], places[1]]),
    ]


def k3s() -> list[Obj]:
    """One node, Helm's jobs, pods that crash, pods without image, and pods that are not ready."""
    return [
        node("k3s-1", {"node-role.kubernetes.io/control-plane": "true"}),
        *map(namespace, ("default", "kube-system", "shop")),
        *finished_job("helm-install-traefik", "kube-system", "k3s-1"),
        *daemon_set("svclb-traefik", ["k3s-1"], tolerations=[CONTROL_PLANE_TAINT | {"operator": "Exists"}]),
        *deployment("traefik", ["k3s-1"], "kube-system"),
        *deployment("crashing", ["k3s-1"], states={"app": CRASHING}),
        *deployment("no-image", ["k3s-1"], states={"app": NO_IMAGE}),
        *deployment("unready", ["k3s-1"], states={"app": UNREADY}, probe=True),
        budget("unready", "shop", 0, maxUnavailable=0),
    ]


def openshift() -> list[Obj]:
    """Guards and installers without controllers, pods that wait, and one that a finalizer holds."""
    masters = [f"master-{number}" for number in range(3)]
    role = {"node-role.kubernetes.io/master": "", "node.openshift.io/os_id": "rhcos"}
    taint = {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}
    config = custom("operator.openshift.io/v1", "KubeAPIServer", "cluster", "openshift-etcd")
    installer = pod(config, "installer-7-master-0", "master-0", template({"app": "installer"}, container()))
    installer["status"] = ended("Succeeded", 0)
    guard = pod(config, "etcd-guard-master-0", "master-0", template({"app": "guard"}, container(), hostNetwork=True))
    held = deployment("held", ["worker-0"], old=0)
    going = deepcopy(held[-1])
    going["metadata"] |= {"name": "held-7d4b8f9c65-going", "uid": "pod-going", "finalizers": ["example.com/hold"]}
    going["metadata"] |= {"deletionTimestamp": "2026-03-01T11:50:00Z", "deletionGracePeriodSeconds": 0}
    going["status"] = ended("Succeeded", 0)
    return [
        *(node(name, role, taints=[taint]) for name in masters),
        node("worker-0", {"node-role.kubernetes.io/worker": ""}),
        *map(namespace, ("default", "kube-system", "openshift-etcd", "shop")),
        *(mirror_pod(name, place) for name in ("etcd", "kube-apiserver") for place in masters),
        *daemon_set("machine-config-daemon", [*masters, "worker-0"], hostNetwork=True, tolerations=EVERYWHERE),
        *daemon_set("tuned", [*masters, "worker-0"], tolerations=EVERYWHERE),
        installer,
        guard,
        *deployment("too-large", [""], nodeSelector={"size": "huge"}),
        *held,
        going,
    ]


CLUSTERS = {each.__name__: each for each in (kubeadm, kind, eks, gke, k3s, openshift)}

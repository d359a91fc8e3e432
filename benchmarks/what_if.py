"""How long a study takes: `python -m benchmarks.what_if [--week] [--large]`.

A settled cluster of 1,000 nodes and 20,000 pods of deployments: read as JSON and as YAML, played through a day, and
through sixteen variants of it, with the size of their report; and the same day with an autoscaler for each of fifty
of the deployments, which find nothing to do. With `--week`, 100,000 arrivals over a week on 1,500
nodes as well; with `--large`, 1,000,000 over a week on 5,000 nodes, and how much memory that takes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.arguments import parser
from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.sim.dump_text import documents
from tests.study.clusters import deployment, namespace, node
from tests.study.left_alone import KINDS, objects_after

NODES, PODS, OF_ONE = 1_000, 20_000, 20
VARIANTS, AUTOSCALERS = 16, 50
SETTLING_SECONDS = 600.0
#: Arrivals of a week: so many an hour, and how long they live.
WEEK = """apiVersion: sim.fairlead.dev/v1alpha1
kind: Arrivals
for: 7d
streams:
- {name: task, rate: %d/h, wave: {amplitude: 0.6}, cpu: "choice(1, 2, 4, 8)", memory: "uniform(2Gi, 16Gi)",
   lifetime: "exponential(%s)"}
"""


def cluster() -> list[Obj]:
    names = [f"node-{number}" for number in range(NODES)]
    objects: list[Obj] = [namespace("default"), *(node(name, cpu="32") for name in names)]
    for number in range(PODS // OF_ONE):
        places = [names[(number * OF_ONE + each) % NODES] for each in range(OF_ONE)]
        objects += deployment(f"app-{number}", places, cpu="500m")
    return objects


def autoscaler(name: str) -> Obj:
    """What its pods are taken to use is what it aims at."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 100}}
    metrics = [{"type": "Resource", "resource": metric}]
    spec = {"scaleTargetRef": target, "minReplicas": OF_ONE, "maxReplicas": 2 * OF_ONE, "metrics": metrics}
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    return {**kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def settled(objects: list[Obj]) -> list[Obj]:
    """As `kubectl get` shows it once its parts have said what they have to say of what there is."""
    return objects_after(objects, SETTLING_SECONDS, (builtin.NAMESPACES, builtin.SERVICE_ACCOUNTS, *KINDS))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--week", action="store_true", help="100,000 arrivals over a week, too")
    options.add_argument("--large", action="store_true", help="1,000,000 arrivals over a week, too")
    given = options.parse_args()
    with TemporaryDirectory() as folder:
        dump = Path(folder, "prod.json")
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": settled(cluster())}).encode()
        dump.write_bytes(text)
        print(f"{'what':<52}{'seconds':>10}")
        shown(f"reading {PODS:,} pods, JSON ({len(text) >> 20} MB)", seconds_of(text))
        lines = yaml.dump(json.loads(text), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)).encode()
        shown(f"reading {PODS:,} pods, YAML ({len(lines) >> 20} MB)", seconds_of(lines))
        alone = simulated(dump, "24h")
        shown(f"a day of {NODES:,} nodes and {PODS:,} pods, all told", alone)
        changes = [argument for each in range(VARIANTS) for argument in ("--change", change(folder, each))]
        report = Path(folder, "report.html")
        several = simulated(dump, "24h", "--html", str(report), *changes)
        shown(f"the same, and {VARIANTS} variants beside it", several)
        shown("    times as long", several / alone)
        shown("    MB of their report", report.stat().st_size / 1e6)
        scaled = Path(folder, "scaled.json")
        autoscalers = [autoscaler(f"app-{number}") for number in range(AUTOSCALERS)]
        items = [*json.loads(text)["items"], *autoscalers]
        scaled.write_bytes(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode())
        shown(f"the same with {AUTOSCALERS} autoscalers at rest", simulated(scaled, "24h"))
        if given.week:
            shown("100,000 arrivals in a week, 1,500 nodes", week(folder, nodes=1_500, an_hour=595, lifetime="4h"))
        if given.large:
            shown("1,000,000 arrivals in a week, 5,000 nodes", week(folder, nodes=5_000, an_hour=5_950, lifetime="1h"))
            # of the largest of them all, which this one is
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            shown("    GB of memory at most", peak / 1e9)


def week(folder: str, *, nodes: int, an_hour: int, lifetime: str) -> float:
    arrivals = Path(folder, "week.yaml")
    arrivals.write_text(WEEK % (an_hour, lifetime))
    sizes = ["--nodes", str(nodes), "--node-cpu", "64", "--node-memory", "256Gi"]
    return timed([*sizes, "--pods-from", str(arrivals)])


def change(folder: str, number: int) -> str:
    path = Path(folder, f"change-{number}.yaml")
    steps = f"- drain: node-{number}\n- at: 1h\n  failNode: node-{100 + number}\n"
    path.write_text(f"apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n{steps}")
    return str(path)


def seconds_of(text: bytes) -> float:
    began = time.perf_counter()
    list(documents(text))
    return time.perf_counter() - began


def simulated(dump: Path, duration: str, *options: str) -> float:
    return timed(["--import", str(dump), "--for", duration, *options])


def timed(options: list[str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "fairlead", "simulate", "-q", "--no-keep", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def shown(what: str, value: float) -> None:
    print(f"{what:<52}{value:>10.2f}", flush=True)


if __name__ == "__main__":
    main()

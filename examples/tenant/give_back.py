"""A controller of one namespace that gives back what the arbitrator asks for by its own choice.

    python give_back.py --kubeconfig ~/.kube/config --namespace batch

Deployments say what they are worth by the annotation `example.dev/worth`; the one that is worth least gives replicas
away until the namespace is down to what it deserves. Nobody is evicted then, and what went does not come back.
"""

import argparse
import asyncio
from pathlib import Path

from fairlead.api.builtin import DEPLOYMENTS
from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.verbs import Api
from fairlead.arbitrator.tenant import Notice, notices
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load


async def main(kubeconfig: Path, namespace: str) -> None:
    async with HttpApi(load(kubeconfig), user_agent="give-back") as api:
        print(f"looking after {namespace}", flush=True)
        async for notice in notices(api, namespace):
            await give_back(api, namespace, notice)


async def give_back(api: Api, namespace: str, notice: Notice) -> None:
    """Scale down, the least valuable first, until nothing is too much."""
    left = {name: amount.milli for name, amount in notice.too_much.items()}
    deployments = [one.obj() for one in (await api.list(DEPLOYMENTS, namespace)).items]
    for deployment in sorted(deployments, key=worth):
        name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        requests = pod_requests(deployment["spec"]["template"]["spec"])
        each = {f"requests.{name}": amount.milli for name, amount in requests.items() if amount}
        needed = max((-(-left[name] // each[name]) for name in left.keys() & each.keys()), default=0)
        given = max(min(needed, replicas), 0)
        left = {name: amount - given * each.get(name, 0) for name, amount in left.items()}
        if given:
            print(f"{name}: {given} of {replicas} for {', '.join(notice.beneficiaries)}", flush=True)
            await api.patch(DEPLOYMENTS, name, namespace, {"spec": {"replicas": replicas - given}})


def worth(deployment: Obj) -> int:
    return int(deployment["metadata"].get("annotations", {}).get("example.dev/worth", "0"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    given = parser.parse_args()
    asyncio.run(main(given.kubeconfig, given.namespace))

"""What a POST to a pod can do: bind it to a node, or ask for its eviction."""

from __future__ import annotations

from fairlead.api.builtin import PODS
from fairlead.api.encoded import Encoded
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.verbs import DeleteOptions
from fairlead.kinds.pods import assign, check_binding
from fairlead.server.context import Result
from fairlead.server.storage import metadata_rules
from fairlead.server.subresources.action import ActionCall, created
from fairlead.server.subresources.eviction import evict

_SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(call: ActionCall) -> Result[Encoded]:
    """`pods/NAME/binding`, and the old `POST bindings`, which names the pod in the body alone."""
    warnings = call.normalise_body()
    metadata_rules.ensure_namespace(call.served, metadata(call.body), call.namespace)
    name = call.name or name_of(call.body)
    check_binding(call.body, name)
    binding = await call.admitted(PODS, name, "binding")
    pods, _ = call.backend.catalogue.of(PODS)

    def change(pod: Obj) -> Obj:
        metadata_rules.check_binding_target(pods, metadata(binding), metadata(pod))
        assign(pod, binding)
        return pod

    dry_run = call.request.options.dry_run
    if await call.backend.guaranteed_update("pods", name, call.namespace, change, dry_run=dry_run) is None:
        raise NotFound.of("pods", name)
    return created(_SUCCESS, warnings)


async def evict_pod(call: ActionCall) -> Result[Encoded]:
    """`pods/NAME/eviction`."""
    warnings = call.normalise_body()
    metadata_rules.ensure_namespace(call.served, metadata(call.body), call.namespace)
    eviction = await call.admitted(PODS, call.name, "eviction")
    backend = call.backend

    async def delete(pod: str, namespace: str, options: DeleteOptions) -> object:
        return await backend.delete(call.request.context, PODS, pod, namespace, options)

    dry_run = call.request.options.dry_run
    status = await evict(backend, backend, delete, call.namespace, call.name, eviction, dry_run=dry_run)
    return created(status, warnings)

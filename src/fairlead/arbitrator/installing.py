"""Makes the arbitrator's kinds known to a server, as this version has them."""

from __future__ import annotations

from fairlead.api import builtin
from fairlead.api.errors import AlreadyExists, Forbidden
from fairlead.api.verbs import Api
from fairlead.arbitrator.definitions import definitions


async def install(api: Api) -> set[str]:
    """Returns the names of those that it may not install: that is for an administrator to do, or has been done."""
    forbidden = set[str]()
    for definition in definitions():
        name = definition["metadata"]["name"]
        try:
            await api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition)
        except AlreadyExists:
            await api.patch(builtin.CUSTOM_RESOURCE_DEFINITIONS, name, "", {"spec": definition["spec"]})
        except Forbidden:
            forbidden.add(name)
    return forbidden

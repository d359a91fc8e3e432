"""Where the traffic of a service can go.

backends.py        which pods serve a service, under which addresses and ports
legacy.py          Endpoints, the old form: one object for each service
triggers.py        which change the endpoints of a service follow
slices.py          how many endpoints are spread over slices, changing as little as possible
service_slices.py  EndpointSlices of a service with a selector
mirroring.py       EndpointSlices for Endpoints that somebody else has written
"""

from fairlead.controllers.endpoints.legacy import ServiceEndpoints
from fairlead.controllers.endpoints.mirroring import MirroredSlices
from fairlead.controllers.endpoints.service_slices import ServiceSlices

__all__ = ["MirroredSlices", "ServiceEndpoints", "ServiceSlices"]

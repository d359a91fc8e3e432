"""Pod specifications: what is filled in, what is refused, what is warned about; for pods and for pod templates.

default_pod_spec(spec)                                in place; every write
default_pod_template(template)
validate_pod_spec(spec, path, errors, metadata=…)     with the pod's metadata; without it, of a template
validate_pod_template(template, path, errors)
template_warnings(template, path) -> list[str]
"""

from fairlead.kinds.podspec.defaults import default_pod, default_pod_spec, default_pod_template
from fairlead.kinds.podspec.spec import validate_pod_spec
from fairlead.kinds.podspec.template import validate_pod_template
from fairlead.kinds.podspec.warnings import pod_warnings, template_warnings

__all__ = [
    "default_pod",
    "default_pod_spec",
    "default_pod_template",
    "pod_warnings",
    "template_warnings",
    "validate_pod_spec",
    "validate_pod_template",
]

"""How an image name decides when the image is pulled.

`:latest`, or no tag at all, means that the name may stand for something new tomorrow, so it is pulled each time.
The grammar is that of github.com/distribution/reference, which upstream parses names with
(pkg/util/parsers); a name outside it has no tag, so it is not pulled again.
"""

from __future__ import annotations

import re

from fairlead.caches import bounded_cache

_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*(?::(?P<tag>{_TAG}))?(?P<digest>@{_DIGEST})?", re.ASCII
)


@bounded_cache(maxsize=4096)
def default_pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, given or implied; else `IfNotPresent`."""
    reference = _REFERENCE.fullmatch(image)
    if reference is None or (reference["digest"] and not reference["tag"]):
        return "IfNotPresent"
    return "Always" if (reference["tag"] or "latest") == "latest" else "IfNotPresent"

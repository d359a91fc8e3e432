"""Config maps as controllers see them: their values stay undecoded until somebody looks."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.meta import Object

#: The control plane puts it into every namespace: the authority of the API server, which pods verify it by.
ROOT_CERTIFICATES: Final = "kube-root-ca.crt"

_NOTHING = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder(dict[str, str] | None).decode


class ConfigMap(Object):
    raw_data: msgspec.Raw = msgspec.field(default=_NOTHING, name="data")

    @property
    def data(self) -> dict[str, str]:
        return _decode(self.raw_data) or {}

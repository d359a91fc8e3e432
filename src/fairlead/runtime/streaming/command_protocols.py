"""The protocols of commands: what each says of the end, and in which form its channels are.

The first three tell a failure in words, and success by nothing. The second and third mend how SPDY's streams end, which
makes no difference here; from the third on a terminal has sizes.
Source: apimachinery `pkg/util/remotecommand`, kubelet `cri-streaming/pkg/streaming/remotecommand` (1.36).
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.runtime.streaming.handshake import Spoken

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
_V3: Final = "v3.channel.k8s.io"
_V2: Final = "v2.channel.k8s.io"
_V1: Final = "channel.k8s.io"
_V4_BASE64: Final = "v4.base64.channel.k8s.io"
_V1_BASE64: Final = "base64.channel.k8s.io"
SPOKEN: Final = Spoken(
    over_spdy=(V5, V4, _V3, _V2, _V1),
    over_websocket=(V5, V4, _V4_BASE64, _V1, _V1_BASE64, ""),
)


class CommandProtocol(msgspec.Struct, frozen=True):
    """One of them."""

    name: str

    @property
    def has_close(self) -> bool:
        """Whether a word of it ends a channel of a WebSocket."""
        return self.name == V5

    @property
    def has_sizes(self) -> bool:
        """Whether it has a stream of SPDY for them."""
        return self.name in (V5, V4, _V3)

    @property
    def is_base64(self) -> bool:
        """Whether messages of a WebSocket are texts: a digit for the channel, then base64."""
        return self.name in (_V4_BASE64, _V1_BASE64)

    def end(self, status: Obj) -> bytes:
        """What is told of the end of a command."""
        if self.name in (V5, V4, _V4_BASE64):
            return encode(status)
        return b"" if status["status"] == "Success" else str(status["message"]).encode()

"""What can be called: a path, and the messages that go there and come back."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from fairlead.agent.grpc.protobuf import Message

Asked = TypeVar("Asked", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class Nothing(Message, frozen=True):
    """A request or an answer that says no more than that it is there."""


class Method(msgspec.Struct, Generic[Asked, Answer], frozen=True):
    path: str
    asked: type[Asked]
    answer: type[Answer]

"""Drives one reconcile by hand: state in, actions out, no loop but a virtual one for the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import ApiError
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.client.informer import Informer, Informers
from fairlead.controllers.actions import Action, Actions, Create, Kind, Patch, Read, Together, Update
from fairlead.controllers.base import World

#: What the server answers to an action; None leaves it to `accepted`.
Answer = Callable[[Action], Any]


class StillWorld(World):
    """A world in which only the given objects exist and time stands still."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:
        super().__init__(Informers(_NO_API))
        self._now = self.lasted = now

    @property
    def now(self) -> float:
        return self._now

    @property
    def monotonic(self) -> float:
        return self.lasted

    def put(self, kind: Kind[Any], objects: Iterable[Obj]) -> None:
        informer: Informer[Any] = self.of(kind)
        for obj in objects:
            item = encoded(obj).view(kind.view)
            informer._replace(item.metadata.key, item)


_NO_API: Any = None


def view(kind: Kind[Any], obj: Obj) -> Any:
    return encoded(obj).view(kind.view)


def accepted(action: Action) -> Any:
    """The outcome of an action on a server that agrees to everything."""
    if isinstance(action, Create):
        meta = {"name": f"{action.obj['metadata'].get('generateName', '')}new"} | action.obj["metadata"]
        return encoded(action.obj | {"metadata": meta})
    if isinstance(action, Update):
        return encoded(action.obj)
    if isinstance(action, Patch):
        return encoded({"metadata": {"name": action.target.metadata.name}})
    if isinstance(action, Read):
        raise AssertionError("the test must say what a fresh read finds")
    return None


def drive(actions: Actions, answer: Answer = lambda action: None) -> list[Action]:
    """All actions of a reconcile (those of `Together` one by one), and at the end the refusal that it raised."""
    done: list[Action] = []

    def outcome(action: Action) -> Any:
        done.append(action)
        told = answer(action)
        return told if told is not None else accepted(action)

    try:
        action = next(actions)
        while True:
            if isinstance(action, Together):
                action = actions.send(_batch(action, outcome))
                continue
            told = outcome(action)
            action = actions.throw(told) if isinstance(told, ApiError) else actions.send(told)
    except StopIteration:
        return done
    except ApiError:
        return done


def _batch(together: Together, outcome: Callable[[Action], Any]) -> list[Encoded | ApiError]:
    outcomes = []
    for action in together.actions:
        outcomes.append(outcome(action))
        if together.slow_start and isinstance(outcomes[-1], ApiError):
            break
    return outcomes


def of_type(actions: Sequence[Action], *types: type) -> list[Any]:
    return [one for one in actions if isinstance(one, types)]


def names(objects: Iterable[Object]) -> list[str]:
    return [one.metadata.name for one in objects]

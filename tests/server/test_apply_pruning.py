"""What an applier no longer names is removed, and the short way for those that name all of it again finds the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.errors import Conflict
from fairlead.server.apply import managers
from tests.examples import examples
from tests.server.apply_world import POD, World

_NAMES = st.sampled_from("abc")
_TEXTS = st.sampled_from(["1", "2"])


def _list_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Items of a list map, each name once."""
    return st.lists(
        st.fixed_dictionaries({"name": _NAMES}, optional=fields), max_size=3, unique_by=lambda item: str(item["name"])
    )


_PORTS = st.lists(
    st.fixed_dictionaries({"containerPort": st.integers(80, 82)}, optional={"name": _NAMES}),
    max_size=2,
    unique_by=lambda port: port["containerPort"],
)
_CONTAINERS = _list_of(
    image=_TEXTS,
    env=_list_of(value=_TEXTS),
    args=st.lists(_TEXTS, max_size=2),
    ports=_PORTS,
    resources=st.fixed_dictionaries({}, optional={"limits": st.dictionaries(_NAMES, _TEXTS, max_size=2)}),
)
_SPECS = st.fixed_dictionaries(
    {"containers": _CONTAINERS},
    optional={
        "nodeSelector": st.dictionaries(_NAMES, _TEXTS, max_size=2),
        "tolerations": st.lists(st.fixed_dictionaries({"key": _NAMES}), max_size=2),
        "nodeName": _TEXTS,
    },
)
_WRITES = st.lists(
    st.tuples(st.sampled_from(["apply", "force", "update"]), st.sampled_from(["me", "you"]), _SPECS),
    min_size=2,
    max_size=5,
)


def _write(world: World, how: str, manager: str, spec: dict[str, Any]) -> str:
    """The conflict, if it is one."""
    try:
        if how == "update":
            world.update(manager, spec=spec)
        else:
            world.apply(manager, force=how == "force", spec=spec)
    except Conflict as conflict:
        return str(conflict)
    return ""


@given(_WRITES)
@settings(max_examples=examples(300), deadline=None)
def test_naming_all_of_it_again_prunes_what_the_whole_way_prunes(writes: list[tuple[str, str, dict[str, Any]]]) -> None:
    short, whole = World(POD), World(POD)
    for write in writes:
        found = _write(short, *write)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(managers, "_is_named_again", lambda *_: False)
            assert _write(whole, *write) == found
        assert short.obj == whole.obj

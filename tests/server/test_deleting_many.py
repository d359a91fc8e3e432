"""Deleting a collection lets others have turns, also where it waits for no disk."""

from __future__ import annotations

import pytest

from fairlead.api.builtin import CONFIG_MAPS
from fairlead.api.verbs import DeleteOptions
from fairlead.runtime import loops, turns
from tests.registry_api import RegistryApi
from tests.turns import counting_turns

_MANY = 50


@pytest.mark.parametrize("dry_run", [True, False])
def test_others_have_turns_while_a_collection_is_deleted(monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    """A dry run over 10,000 objects, or a namespace of large ones in memory, was one turn."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)

    async def story() -> None:
        async with RegistryApi() as api:
            for number in range(_MANY):
                await api.create(CONFIG_MAPS, {"metadata": {"name": f"c-{number}"}}, "default")
            deleting = api.delete_collection(CONFIG_MAPS, "default", options=DeleteOptions(dry_run=dry_run))
            _, others = await counting_turns(deleting)
            assert others >= _MANY
            assert len((await api.list(CONFIG_MAPS, "default")).items) == (_MANY if dry_run else 0)

    loops.run(story())

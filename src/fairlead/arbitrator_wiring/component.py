"""The arbitrator as a component that runs: with the scheduler's cluster model and an event recorder.

It is here because the arbitrator and the scheduler do not import each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.api.verbs import Api
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.loop import Arbitrator, ArbitratorObserver, always
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informers
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.whatif import WhatIf

COMPONENT: Final = "fairlead-arbitrator"


class ArbitratorComponent:
    """An arbitrator over one API. The caller runs the informers."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        grants: GrantTable,
        model: ClusterModel | None = None,
        *,
        may_act: Callable[[], bool] = always,
        observer: ArbitratorObserver | None = None,
    ) -> None:
        """`model`: that of the scheduler that runs here, if one does."""
        self._recorder = EventRecorder(api, COMPONENT)
        self._model = model or ClusterModel(informers)
        self._arbitrator = Arbitrator(
            api, informers, grants, WhatIf(self._model), recorder=self._recorder, may_act=may_act, observer=observer
        )

    async def run(self) -> None:
        """Arbitrate until cancelled."""
        await self._model.synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._arbitrator.run(), name="arbitrator")

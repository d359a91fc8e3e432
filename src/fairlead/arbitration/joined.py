"""The arbitrator with what it needs of others: the scheduling model of the cluster, and a recorder of events.

The arbitrator and the scheduler do not know each other; here they meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.api.verbs import Api
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.loop import Arbitrator, Watch, always
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informers
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.whatif import WhatIf

COMPONENT: Final = "fairlead-arbitrator"


class Arbitration:
    """An arbitrator over one API. Somebody else runs the informers."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        ledger: Ledger,
        model: ClusterModel | None = None,
        *,
        may_act: Callable[[], bool] = always,
        watch: Watch | None = None,
    ) -> None:
        """`model`: that of the scheduler that runs here, if one does."""
        self._recorder = EventRecorder(api, COMPONENT)
        self._model = model or ClusterModel(informers)
        self._arbitrator = Arbitrator(
            api, informers, ledger, WhatIf(self._model), recorder=self._recorder, may_act=may_act, watch=watch
        )

    async def run(self) -> None:
        """Arbitrate until cancelled."""
        await self._model.synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._arbitrator.run(), name="arbitrator")

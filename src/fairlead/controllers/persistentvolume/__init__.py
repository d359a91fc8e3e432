"""The PersistentVolume controller: claims get volumes, and volumes learn what has become of their claims.

Source: pkg/controller/volume/persistentvolume. The two halves of a binding are written one after the other, the volume
first, so each turn has to make sense of any half that it finds:

    claim made ──▶ a volume fits? ──yes──▶ volume.claimRef ▶ volume Bound ▶ claim.volumeName ▶ claim Bound
                        └─no──▶ name the provisioner, or wait: for a volume, for the scheduler

Upstream looks at everything again every 15 seconds; here a change of a volume or class wakes whom it concerns.
"""

from fairlead.controllers.persistentvolume.claims import ClaimBinder
from fairlead.controllers.persistentvolume.expansion import ClaimExpander
from fairlead.controllers.persistentvolume.volumes import VolumeKeeper

__all__ = ["ClaimBinder", "ClaimExpander", "VolumeKeeper"]

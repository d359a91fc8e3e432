"""Patches: three ways to say what shall change, each a pure function from object and patch to a new object.

Which field of which kind is merged how is not known here: strategic merge asks a `PatchSchema`. Decoding a body and
applying a patch raise the refusals that kube-apiserver 1.36 answers with (handlers/patch.go of k8s.io/apiserver).
A result shares nothing with the object it was made from, so that defaulting may write to it.
"""

from fairlead.api.patches.bodies import PatchDoesNotApply, PatchFailed, undecodable
from fairlead.api.patches.json import JsonPatch, apply_json_patch, decode_json_patch
from fairlead.api.patches.merge import apply_merge_patch, decode_merge_patch
from fairlead.api.patches.strategic import PatchSchema, apply_strategic_patch, decode_strategic_patch

__all__ = [
    "JsonPatch",
    "PatchDoesNotApply",
    "PatchFailed",
    "PatchSchema",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_patch",
    "decode_json_patch",
    "decode_merge_patch",
    "decode_strategic_patch",
    "undecodable",
]

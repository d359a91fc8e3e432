"""The volumes of pods: made before the first container starts, and gone with the pod."""

"""How a pod whose turn it is gets decided about: by itself, with its group, by its quota, with extenders.

The scheduler asks its cycles in this order; the first that takes the pod decides:

    gang ─▶ quota ─▶ extenders ─▶ pod
"""

"""Server-side apply and field ownership (KEP-555): who owns which field, and when a change is a conflict.

ownership.py     what the registry calls: `track`, `apply`, and `keep_unchanged_timestamps` before storing
field_managers.py  the manager of a write                resets.py     fields that an endpoint ignores
bodies.py        the body and the options of an apply     validate.py   whether a body fits the schema
managers.py      who owns what after a write              entries.py    `metadata.managedFields`
merge.py         merging and pruning                      typed.py      fields of an object, difference of two
shapes.py        what merging knows of a type             forms.py      the versions of a kind
fieldsets.py     sets of fields                           elements.py   steps of a path
scale.py         replicas, owned through `/scale`         reconcile.py  sets after a change of schema
conflicts.py     the refusal                              last_applied.py  the way from client-side apply
"""

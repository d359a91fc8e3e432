"""Server-side apply and field ownership (KEP-555): who may change what without asking, and who is asked.

ownership.py     what the registry calls: `track` for every write, `apply` for an apply, `settle` before storing
writers.py       who a write is recorded under            resets.py     what an endpoint does not count
bodies.py        the body and the options of an apply     validate.py   whether a body fits the schema
managers.py      who owns what after a write              entries.py    `metadata.managedFields`
merge.py         merging and pruning                      typed.py      fields of an object, difference of two
shapes.py        what merging knows of a type             forms.py      the versions of a kind
fieldsets.py     sets of fields                           elements.py   steps of a path
scale.py         replicas, owned through `/scale`         reconcile.py  sets after a change of schema
conflicts.py     the refusal                              last_applied.py  the way from client-side apply
"""

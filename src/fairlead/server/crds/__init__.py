"""CustomResourceDefinitions: kinds that arrive at run time, with a schema instead of code.

    definition.py   a CRD as a stored kind: its defaults, what users may not set, its warnings
    rules.py        which CRDs are refused             structural.py   which schemas are
    conversion.py   what it may say of its versions' conversion;  webhook_conversion.py  calls who converts
    internal.py     the older form in which refusals are spelled
    naming.py       names, conflicts and conditions    approval.py     groups that need an approval
    custom.py       a custom kind, as the registry     schema.py       a schema, compiled
                    serves it
    pruning.py      dropping, filling in               values.py       validation of values
    formats.py  patterns.py  uniqueness.py  embedded.py  embedded_meta.py  paths.py  columns.py  scale.py   their parts

Everything here is a pure function of dicts; the registry stores, watches and calls. Facts are those of
k8s.io/apiextensions-apiserver and k8s.io/kube-openapi/pkg/validation, 1.36.
"""

"""The Pod Security Standards: which pods the levels baseline and restricted allow, version by version. Pure.

`policy.py` is what the labels of a namespace ask for, `baseline.py` and `restricted.py` are the rules, `checks.py` says
which of them hold at a level and version. Who is judged by them is up to `server/admission/pod_security.py`.
Source: k8s.io/pod-security-admission 0.36, and the page "Pod Security Standards" of Kubernetes' documentation.
"""

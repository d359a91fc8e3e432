"""The Common Expression Language (CEL) as kube-apiserver 1.36 runs it: rules of custom resources and of admission.

`environment.py` is the way in: declare variables, compile an expression, evaluate it. Everything here is pure.
Language: https://github.com/google/cel-spec; what Kubernetes adds:
https://kubernetes.io/docs/reference/using-api/cel/ and k8s.io/apiserver/pkg/cel.
"""

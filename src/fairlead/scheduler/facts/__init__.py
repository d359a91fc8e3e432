"""The facts that plugins ask for, beside the columns of nodes: each kept up to date by the snapshot, pod by pod and
object by object, so that no decision has to look through what there is.
"""

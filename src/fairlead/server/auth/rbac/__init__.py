"""Role-based access control: who may do what, by roles and bindings (plugin/pkg/auth/authorizer/rbac, 1.36).

rules.py      what one rule allows, and which rules others cover
index.py      the roles and bindings of a cluster, by who they are for
authorizer.py the decision
grants.py     nobody gives away what they do not have
defaults.py   what every cluster has (defaults.txt); registry/default_policy.py puts it there
"""

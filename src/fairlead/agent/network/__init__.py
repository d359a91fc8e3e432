"""The network of a real node: addresses for pods, services, policies, names.

pod_network.py  what the agent uses: attach, detach, run, close; reset.py removes it all
settings.py     what is fixed when a node starts
cni/            addresses and interfaces: plugins are executed, what they answered is kept
subnets.py      which addresses this node may give out, and how the others' are reached (routes.py)
services/       virtual addresses of services as rules of nftables
policies/       NetworkPolicies as rules of nftables
nftables/       our one table, changed in transactions
dns/            names of services, and what resolv.conf of a pod says

Deciders (`endpoints`, `rules`, `compile`, `records`, `choose`) are pure; what waits for programs and sockets is around
them.
"""

"""Node-pressure eviction: what a kubelet does before its node runs out of memory, disk, inodes or process IDs.

    observed ─▶ thresholds met ─▶ past their grace period ─▶ reclaim on the node ─▶ still short ─▶ evict one pod
                     │
                     └─▶ conditions of the node, which stay for the transition period

Pure: time, observations and pods come in as arguments, decisions go out as values. Source: pkg/kubelet/eviction.
"""

"""Services that say who somebody is, or what they may do; each is named by a kubeconfig."""

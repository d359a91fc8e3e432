"""What a node measures of itself and its pods, and the texts in which kubelet publishes that."""

"""What a kubelet decides, as pure functions: no clock, no client, no node of its own."""

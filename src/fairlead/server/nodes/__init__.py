"""What the server asks nodes for: their measurements, and what their kubelets answer."""

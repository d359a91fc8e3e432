"""What simulated containers and nodes use, as functions of time. See docs/usage.md."""

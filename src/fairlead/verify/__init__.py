"""Prediction against reality: a workload in virtual time and on this machine, side by side (docs/fidelity.md)."""

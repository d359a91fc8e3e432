"""The machine goes down: it is told of it by systemd-logind, and held back until pods have ended."""

"""Fairlead: Kubernetes resource management that people run, embed and simulate."""

__version__ = "0.1.0"

#: The Kubernetes minor version whose API, decisions and texts Fairlead reproduces.
COMPATIBILITY_VERSION = "1.36"

"""Virtual addresses of services: who answers (endpoints.py), as rules (rules.py), kept current (proxy.py)."""

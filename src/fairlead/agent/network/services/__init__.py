"""Virtual addresses of services: who answers (endpoints.py), as rules (rules.py), kept current (proxy.py),
and flows that would outlive them (flows.py)."""

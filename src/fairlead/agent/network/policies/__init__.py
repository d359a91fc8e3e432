"""NetworkPolicies: which packets they let through (compile.py), as rules (rules.py), kept current (engine.py)."""

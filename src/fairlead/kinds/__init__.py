"""The behaviour of the built-in kinds, pure: one module a topic; table.py has all of them.

Whoever needs one of them (a node agent, of pods) loads that one alone.
"""

"""The controllers of Kubernetes: each turns what one kind of object asks for into what exists.

Start at `replication.py` (a whole controller), then `actions.py` (what a controller may want), `base.py` (what it
sees), `runner.py` and `executor.py` (the shell around it); `table.py` lists them all.
"""

"""What the real kubelet decided, replayed, a module for each kind of table; `test_golden.py` collects them."""

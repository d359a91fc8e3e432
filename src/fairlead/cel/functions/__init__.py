"""What functions there are, by library. `table.py` joins them."""

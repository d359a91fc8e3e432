"""What runs containers on this machine, behind one contract (`base.py`)."""

"""Our table of nftables: what it should hold (table.py), and how it gets into the kernel (writer.py)."""

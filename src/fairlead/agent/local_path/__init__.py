"""Claims become folders of the node that their pod was scheduled to."""

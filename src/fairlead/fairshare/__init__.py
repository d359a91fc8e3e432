"""The mathematics of a fair cluster: who deserves what, exactly. Pure, and without a clock."""

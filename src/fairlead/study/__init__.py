"""What-if: one cluster played through several variants of the future, and what became of its pods in each."""

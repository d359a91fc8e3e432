"""Other servers that answer for versions of groups: whose they are, whether they can be reached, what they serve."""

"""Changes of a cluster, step by step: what a file or a short form says, and how it is carried out."""

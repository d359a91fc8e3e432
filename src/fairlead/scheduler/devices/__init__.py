"""Which devices the claims of a pod would get on a node: a pure function of what is offered and what is taken."""

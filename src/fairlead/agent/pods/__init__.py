"""The life of pods on a real node: the decisions are `node/`'s, what happens is here."""

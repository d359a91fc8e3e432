"""Who on this node has which devices, told at a socket to whoever monitors them."""

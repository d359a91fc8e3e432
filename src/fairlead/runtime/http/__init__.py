"""HTTP/1.1 as our servers speak it, the API server's and a kubelet's: bounded before anybody is known."""

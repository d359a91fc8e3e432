"""Names of services: what is answered (records.py, over directory.py), by whom (server.py), and everything else
(upstream.py). What a pod is told of it: resolv_conf.py."""

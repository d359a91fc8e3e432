"""The Container Network Interface (specification 1.0): which network (configuration.py), how plugins are called
(plugins.py), and what is kept of every attachment, so that none outlives its pod (attachments.py)."""

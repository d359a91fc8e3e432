"""What the developers run; nothing of it is installed."""

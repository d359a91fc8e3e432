"""Certificates that a node asks its cluster for, and keeps."""

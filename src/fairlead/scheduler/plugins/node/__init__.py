"""Plugins about the node itself, whoever runs on it."""

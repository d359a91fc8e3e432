"""Plugins about what pods request and nodes offer."""

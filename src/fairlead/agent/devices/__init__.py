"""Devices of a real node: drivers that have registered, and the claims that they have prepared for pods."""

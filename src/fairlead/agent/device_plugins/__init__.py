"""Devices of a real node that plugins offer by number (extended resources), and which of them containers have."""

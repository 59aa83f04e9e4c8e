"""Tonnage: how much can this hardware carry? The server's packages; see README.md for the map of the rooms."""

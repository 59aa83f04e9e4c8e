"""Grids of deployments and loads, answered in packed columns; see ``run``."""

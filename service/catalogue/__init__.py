"""Accelerators, node types and models, every figure with its source. See ``entries``, ``loader`` and ``lookup``."""

"""Vendor claims: read from text or fields, held against the catalogue, and judged."""

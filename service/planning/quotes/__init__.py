"""Vendors' offers: read leniently, each line audited and normalised to one device."""

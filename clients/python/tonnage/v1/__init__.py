"""Generated stubs of tonnage.v1. Do not edit: run make gen."""

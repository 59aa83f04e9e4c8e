"""Generated messages of protos/compat. Do not edit: run make gen."""

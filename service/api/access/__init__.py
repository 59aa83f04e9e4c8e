"""Who may ask what, and how much at once: keys, signed tokens, scopes, limits per caller."""

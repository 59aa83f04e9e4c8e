"""What a cluster looks like and what a scheduler would do with it. Knows no model and no accelerator of the catalogue."""

"""A model on a cluster as it stands: where its replicas fit, what would make room for more, and manifests that start them."""

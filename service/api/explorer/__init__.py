"""The explorer page: files that the distribution carries, served as they are."""

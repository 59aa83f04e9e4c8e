"""Which node group shall grow for the pods that wait: what fits, whole gangs, few idle accelerators, a low price."""

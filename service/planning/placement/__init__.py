"""Jobs on a cluster: from a request to nodes, pods and a policy, and back from what a simulation finds."""

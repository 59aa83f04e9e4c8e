"""One file a question; joins catalogue, architectures and formulas. Knows no protobuf, gRPC, HTTP or Redis."""

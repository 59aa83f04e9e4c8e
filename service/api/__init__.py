"""The doors: gRPC and REST over the same servicers. Turns messages into questions and answers into messages; computes nothing."""

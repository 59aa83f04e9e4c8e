"""The doors: gRPC and REST over the same servicers. Messages become questions, answers become messages; nothing is computed."""

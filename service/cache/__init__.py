"""Answers kept: an in-process tier for every RPC, and Redis for the RPCs that cost more than a round trip to it.

What is cached are serialized responses, never objects. Nothing here knows protobuf, the planner or the doors, and the
room imports the standard library and redis only. A broken or missing Redis is never an error to a caller.
"""

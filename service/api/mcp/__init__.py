"""The MCP door: a few tools, each a task that a chatbot is asked for, over the same servicers as the other doors.

Nothing here is imported by a service that does not serve MCP, except ``door`` and ``guard``, which need no MCP library.
"""

"""The rules of a Kubernetes API server, its scheduler and controllers, as pure functions over JSON objects.

For the embedded Kubernetes and for tests. No I/O, no clock, no randomness here: instants, UIDs and suffixes are
arguments; what is refused is raised as `statuses.Refusal`, in the words of the real API server where they are known.
Arguments are never changed: every function returns new objects.
"""

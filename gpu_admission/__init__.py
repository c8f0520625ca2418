"""gpu_admission: say which GPU you need in one line; the webhook finds the nodes."""

"""Node Conditions, node checks and GPU probes as Prometheus metrics and Node Conditions."""

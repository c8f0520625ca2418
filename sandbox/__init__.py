"""An embedded GitHub for the demo, the tests and the benchmarks; it never ships inside a service."""

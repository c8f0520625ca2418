"""Runs the known fix for a node's fault, proves that it worked, and hands over to a person when it did not."""

"""Benchmarks behind docs/performance.md: `python -m bench [NAME…]`.

Each module here with a `run() -> str` is one benchmark; it returns a Markdown table and says of how
many runs its figures are medians. Nothing that ships imports this package.
"""

"""How fast the product is, as ratios against a reference measured in the same run on the same machine.

`python -m benchmarks [--only NAME]` starts servers of its own on free ports and leaves nothing behind.
"""

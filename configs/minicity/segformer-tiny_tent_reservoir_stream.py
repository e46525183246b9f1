# Routing by evidence over several frames: see docs/routing.md.
_base_ = ["./segformer-tiny_tent.py", "../_base_/reservoir/stream.py"]
reservoir = dict(style=dict(weights="seeded"))

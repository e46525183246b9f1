_base_ = ["./segformer-tiny_cotta.py", "../_base_/reservoir/stream.py"]
reservoir = dict(style=dict(weights="seeded"))  # random filters: nothing to download

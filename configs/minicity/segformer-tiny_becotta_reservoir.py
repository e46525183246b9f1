_base_ = ["./segformer-tiny_becotta.py", "../_base_/reservoir/stream.py"]
reservoir = dict(style=dict(weights="seeded"))  # random filters: nothing to download

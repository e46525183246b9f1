_base_ = ["./segformer-tiny_cotta.py", "../_base_/reservoir/stream_128x256.py"]

_base_ = ["./segformer-tiny_becotta.py", "../_base_/reservoir/stream_128x256.py"]

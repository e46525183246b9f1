_base_ = ["./segformer-tiny_tent.py", "../_base_/reservoir/stream_128x256.py"]

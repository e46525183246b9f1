_base_ = ["./segformer-tiny_eata.py", "../_base_/reservoir/stream_128x256.py"]

_base_ = ["./segformer-tiny_becotta.py", "../_base_/reservoir/robust_128x256.py"]

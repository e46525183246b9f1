_base_ = ["./segformer-tiny_cotta.py", "../_base_/reservoir/robust_128x256.py"]

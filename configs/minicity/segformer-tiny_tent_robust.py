_base_ = ["./segformer-tiny_tent.py", "../_base_/reservoir/robust_128x256.py"]

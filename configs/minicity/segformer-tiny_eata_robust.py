_base_ = ["./segformer-tiny_eata.py", "../_base_/reservoir/robust_128x256.py"]

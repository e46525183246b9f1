_base_ = ["./segformer-tiny_tent.py", "../_base_/reservoir/robust.py"]

_base_ = ["./segformer-b5_tent.py", "../_base_/reservoir/robust.py"]

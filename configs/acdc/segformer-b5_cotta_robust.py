_base_ = ["./segformer-b5_cotta.py", "../_base_/reservoir/robust.py"]

_base_ = ["./segformer-tiny_cotta.py", "../_base_/reservoir/robust.py"]

_base_ = ["./segformer-tiny_becotta.py", "../_base_/reservoir/robust.py"]

_base_ = ["./segformer-b5_becotta.py", "../_base_/reservoir/robust.py"]

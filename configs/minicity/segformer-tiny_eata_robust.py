_base_ = ["./segformer-tiny_eata.py", "../_base_/reservoir/robust.py"]

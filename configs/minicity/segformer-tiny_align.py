_base_ = ["./segformer-tiny_source.py", "../_base_/reservoir/robust.py"]
method = dict(type="align")

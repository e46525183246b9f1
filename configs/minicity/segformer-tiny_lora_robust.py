_base_ = ["./segformer-tiny_lora.py", "../_base_/reservoir/robust.py"]

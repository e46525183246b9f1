_base_ = ["./segformer-b5_lora.py", "../_base_/reservoir/robust.py"]

_base_ = ["./segformer-tiny_lora.py", "../_base_/reservoir/robust_128x256.py"]

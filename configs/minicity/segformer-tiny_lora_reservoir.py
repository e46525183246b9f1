_base_ = ["./segformer-tiny_lora.py", "../_base_/reservoir/stream_128x256.py"]

_base_ = ["./segformer-b5_cotta.py", "../_base_/reservoir/torchvision.py"]

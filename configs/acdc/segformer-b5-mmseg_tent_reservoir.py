_base_ = ["./segformer-b5-mmseg_tent.py", "../_base_/reservoir/torchvision.py"]

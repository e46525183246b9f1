_base_ = ["./digits_convnet_tent.py", "../../_base_/cls/digits_reservoir.py"]

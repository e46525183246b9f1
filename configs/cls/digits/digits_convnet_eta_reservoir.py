_base_ = ["./digits_convnet_eta.py", "../../_base_/cls/digits_reservoir.py"]

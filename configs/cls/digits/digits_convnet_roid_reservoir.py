_base_ = ["./digits_convnet_roid.py", "../../_base_/cls/digits_reservoir.py"]

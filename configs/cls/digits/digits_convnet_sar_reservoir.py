_base_ = ["./digits_convnet_sar.py", "../../_base_/cls/digits_reservoir.py"]

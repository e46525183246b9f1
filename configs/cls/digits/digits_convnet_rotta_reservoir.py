_base_ = ["./digits_convnet_rotta.py", "../../_base_/cls/digits_reservoir.py"]

_base_ = ["./digits_convnet_eata.py", "../../_base_/cls/digits_reservoir.py"]

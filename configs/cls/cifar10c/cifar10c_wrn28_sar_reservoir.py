_base_ = ["./cifar10c_wrn28_sar.py", "../../_base_/cls/reservoir.py"]

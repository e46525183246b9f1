_base_ = ["./cifar10c_wrn28_roid.py", "../../_base_/cls/reservoir.py"]

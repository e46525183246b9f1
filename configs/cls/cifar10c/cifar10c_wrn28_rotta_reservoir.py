_base_ = ["./cifar10c_wrn28_rotta.py", "../../_base_/cls/reservoir.py"]

_base_ = ["./cifar10c_wrn28_eta.py", "../../_base_/cls/reservoir.py"]

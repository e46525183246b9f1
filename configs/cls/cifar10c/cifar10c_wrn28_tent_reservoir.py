_base_ = ["./cifar10c_wrn28_tent.py", "../../_base_/cls/reservoir.py"]

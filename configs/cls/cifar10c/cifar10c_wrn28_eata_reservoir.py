_base_ = ["./cifar10c_wrn28_eata.py", "../../_base_/cls/reservoir.py"]

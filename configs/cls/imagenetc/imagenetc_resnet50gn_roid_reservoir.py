_base_ = ["./imagenetc_resnet50gn_roid.py", "../../_base_/cls/reservoir.py"]

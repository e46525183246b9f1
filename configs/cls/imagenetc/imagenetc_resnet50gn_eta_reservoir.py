_base_ = ["./imagenetc_resnet50gn_eta.py", "../../_base_/cls/reservoir.py"]

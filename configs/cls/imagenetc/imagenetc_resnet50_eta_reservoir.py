_base_ = ["./imagenetc_resnet50_eta.py", "../../_base_/cls/reservoir.py"]

_base_ = ["./ccc_resnet50_eta.py", "../../_base_/cls/reservoir.py"]

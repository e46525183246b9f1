_base_ = ["./ccc_resnet50_roid.py", "../../_base_/cls/reservoir.py"]

_base_ = ["./ccc_resnet50_sar.py", "../../_base_/cls/reservoir.py"]
